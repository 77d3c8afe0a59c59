"""Users' decisions: readings of KIPs, disabled rules, other levels, suppressed findings, owners of clients.

A suppressed finding is still made, counted and shown. A suppression has a reason and an end, so that it
cannot outlive its reason unnoticed: kipwatch warns when it has expired, or matches nothing. It matches rules,
software and client IDs by glob, addresses by CIDR. Suppressions name clients plainly. If findings hold
pseudonyms, the client ID and the full address of a suppression are replaced likewise; a pattern of several
clients cannot be compared with pseudonyms and is refused.

A running query takes over the decisions of a changed configuration, and no other setting.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, date, datetime
from fnmatch import fnmatchcase
from ipaddress import ip_address
from pathlib import Path
from typing import Final

import msgspec

from decoders.frame.record import host_of
from expectations.conversation.bodies import NO_NODE, ClusterDescription
from expectations.conversation.pseudonyms import Pseudonyms
from expectations.judging.finding import Finding, Suppressed
from expectations.judging.terms import Terms
from expectations.rules.base.rule import Rule
from expectations.rules.catalogue import RULES, read_choices, rules_read_as
from streaming.settings.address import network_of
from streaming.settings.confidential import pseudonyms_of
from streaming.settings.configuration import Configuration, Suppression
from streaming.settings.owners import bracketed, read_owners, whole
from streaming.user_error import UserError, did_you_mean

DECISIONS: Final = ("spec", "disable", "levels", "suppress", "listener", "owners")


def utc_today() -> date:
    """Return the present day in UTC, so that suppressions end at the same time everywhere."""
    return datetime.now(UTC).date()


class SuppressionUse(msgspec.Struct, frozen=True):
    """How many findings a suppression matched. An expired one matches none."""

    suppression: Suppression
    expired: bool
    findings: int

    @property
    def warning(self) -> str:
        """Why the suppression should be removed; "" if it matches."""
        if self.expired:
            return f"{_named(self.suppression)} expired on {self.suppression.until}"
        return "" if self.findings else f"{_named(self.suppression)} matches no finding"


class Decisions:
    """The decisions of one configuration.

    Raises UserError if they name a rule or a reading that does not exist, or an invalid network, or if the
    key of pseudonyms or the file of owners cannot be used.
    """

    def __init__(self, configuration: Configuration, today: Callable[[], date] = utc_today) -> None:
        self._configuration = configuration
        self._today = today
        self._pseudonyms = pseudonyms_of(configuration)
        self._matches = [SuppressionMatch(each, self._pseudonyms) for each in configuration.suppress]
        self.owners = (
            read_owners(Path(configuration.owners), self._pseudonyms) if configuration.owners else None
        )
        self._check_rule_names()
        self.rules = self._rules()

    @property
    def disabled(self) -> list[str]:
        """The IDs of the disabled rules."""
        return sorted(set(self._configuration.disable))

    @property
    def terms(self) -> Terms:
        """The configured terms of judging."""
        listeners = self._configuration.listener
        return Terms(
            rules=self.rules,
            listeners={each.address: each.name for each in listeners if each.name},
            brokers={
                each.address: ClusterDescription(
                    each.cluster_id, NO_NODE if each.node_id is None else each.node_id
                )
                for each in listeners
                if each.cluster_id
            },
            decide=self.decide if self._configuration.levels or self._configuration.suppress else None,
            pseudonyms=self._pseudonyms,
            owner_of=self.owners.of if self.owners else None,
        )

    def decide(self, finding: Finding) -> Finding:
        """Return a finding with its configured level, and with the suppression that applies today, if any."""
        level = self._configuration.levels.get(finding.rule, finding.level)
        covering = self._covering(finding)
        suppressed = Suppressed(covering.reason, covering.until.isoformat()) if covering else msgspec.UNSET
        return msgspec.structs.replace(finding, level=str(level), suppressed=suppressed)

    def uses(self, findings: Sequence[Finding]) -> list[SuppressionUse]:
        """Return each suppression with the number of findings that it matches."""
        today, covering = self._today(), [self._covering(finding) for finding in findings]
        return [
            SuppressionUse(each, each.until < today, sum(found is each for found in covering))
            for each in self._configuration.suppress
        ]

    def expired(self) -> list[str]:
        """Return the warnings of expired suppressions, which need no findings."""
        return [use.warning for use in self.uses([]) if use.expired]

    def _covering(self, finding: Finding) -> Suppression | None:
        today = self._today()
        return next(
            (
                match.suppression
                for match in self._matches
                if today <= match.suppression.until and match.covers(finding)
            ),
            None,
        )

    def _rules(self) -> list[Rule]:
        try:
            read = rules_read_as(read_choices(self._configuration.spec))
        except ValueError as error:
            raise UserError(f"spec: {error}") from None
        return [rule for rule in read if rule.id not in self._configuration.disable]

    def _check_rule_names(self) -> None:
        known = {rule.id for rule in RULES}
        configuration = self._configuration
        named = {
            "disable": configuration.disable,
            "levels": configuration.levels,
            "suppress": self._suppressed(known),
        }
        for key, rule_ids in named.items():
            for rule_id in rule_ids:
                if rule_id not in known:
                    hint = did_you_mean(rule_id, known, "`kipwatch rules` lists them", cutoff=0.8)
                    raise UserError(f"{key}: there is no rule {rule_id!r}; {hint}")

    def _suppressed(self, known: Collection[str]) -> list[str]:
        """Return the rules that suppressions match, and each pattern that matches none."""
        patterns = (suppression.rule for suppression in self._configuration.suppress)
        return [found for pattern in patterns for found in fnmatch.filter(known, pattern) or [pattern]]


def _named(suppression: Suppression) -> str:
    return f"the suppression of {suppression.rule} ({suppression.reason})"


def take_over(current: Configuration, changed: Configuration) -> tuple[Configuration, list[str]]:
    """Return `current` with the decisions of `changed`, and the names of other settings that differ."""
    taken = msgspec.structs.replace(current, **{name: getattr(changed, name) for name in DECISIONS})
    names = Configuration.__struct_fields__
    return taken, [name for name in names if getattr(taken, name) != getattr(changed, name)]


class SuppressionMatch:
    """A suppression with its patterns parsed."""

    def __init__(self, suppression: Suppression, pseudonyms: Pseudonyms | None = None) -> None:
        """Raises UserError if an address is not valid, or a pattern cannot be compared with pseudonyms."""
        self.suppression = suppression
        client_id, client, broker = suppression.client_id, suppression.client, suppression.broker
        try:
            if pseudonyms is not None:
                client_id = client_id and pseudonyms.text(whole("client_id", client_id, "*?["))
                client = client and _pseudonym(whole("client", client, "/"), pseudonyms)
            self._client = None if client is None else AddressPattern(client)
            self._broker = None if broker is None else AddressPattern(broker)
        except ValueError as error:
            raise UserError(f"suppress: {error}") from None
        self._client_id = client_id

    def covers(self, finding: Finding) -> bool:
        """Whether a finding matches all given fields."""
        given = self.suppression
        return (
            fnmatchcase(finding.rule, given.rule)
            and _matches(given.client_software_name, finding.client_software_name)
            and _matches(self._client_id, finding.client_id)
            and (self._client is None or self._client.covers(finding.client))
            and (self._broker is None or self._broker.covers(finding.broker))
        )


class AddressPattern:
    """A network in CIDR notation, or an address with or without a port. IPv6 may have brackets."""

    def __init__(self, text: str) -> None:
        """Raises ValueError if a network is not valid."""
        self._text = text.replace("[", "").replace("]", "") if "]:" not in text else text
        self._network = network_of(text) if "/" in text else None

    def covers(self, address: str) -> bool:
        """Whether the pattern covers an address with a port, as findings have it."""
        host = host_of(address).strip("[]")
        if self._network is not None:
            return ip_address(host) in self._network
        return self._text in (address, host)


def _pseudonym(client: str, pseudonyms: Pseudonyms) -> str:
    """Replace an address with or without a port."""
    is_bare = ":" not in client or (client.count(":") > 1 and "]:" not in client)
    return pseudonyms.host(bracketed(client)) if is_bare else pseudonyms.address(client)


def _matches(glob: str | None, text: str | None) -> bool:
    """Whether a text matches a glob; None for a glob matches anything."""
    return glob is None or (text is not None and fnmatchcase(text, glob))
