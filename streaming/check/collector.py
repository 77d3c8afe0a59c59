"""Judges with an audience: they judge as ever, and tell the fleet's report and the keeper of evidence.

Only where a whole source is examined in one process: the query's workers judge without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from expectations.conversation.connection_window import ConnectionWindow
from expectations.identity.claim import Claim, Identity
from expectations.judging.finding import Finding
from expectations.judging.identity_judge import IdentityJudge, IdentityState
from expectations.judging.judge import ConnectionState, Judge
from expectations.judging.outcome import Outcome, merged
from expectations.judging.terms import Terms
from expectations.report.fleet import Fleet
from expectations.rules.base.identity_rule import IdentityRule
from expectations.rules.base.rule import Rule


class Companions:
    """Which connections showed the same identity."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._kinds = {rule.id: rule.kind for rule in rules if isinstance(rule, IdentityRule)}
        self._identities: dict[str, set[Identity]] = {}
        self._connections: dict[Identity, set[str]] = {}

    def hear(self, claims: Iterable[Claim]) -> None:
        """Take claims in. Those of a broker as a whole belong to no connection."""
        for claim in claims:
            if claim.connection:
                self._identities.setdefault(claim.connection.hex(), set()).add(claim.identity)
                self._connections.setdefault(claim.identity, set()).add(claim.connection.hex())

    def of(self, finding: Finding) -> set[str]:
        """Give the connections that a finding is about, in hex: its own, and those it was held against."""
        kind = self._kinds.get(finding.rule)
        shared = [each for each in self._identities.get(finding.connection, ()) if each.kind is kind]
        return {finding.connection}.union(*(self._connections[identity] for identity in shared))


class Audience:
    """Who listens to the judges: the fleet's report, and the companions of findings."""

    def __init__(self, rules: Sequence[Rule], api_names: Mapping[int, str]) -> None:
        self.rules = rules
        self.fleet = Fleet(rules, api_names)
        self.companions = Companions(rules)


class HeardJudge(Judge):
    """Tells the fleet what each connection said, and how it was judged."""

    def __init__(self, audience: Audience, api_names: Mapping[int, str], terms: Terms) -> None:
        super().__init__(api_names, terms)
        self._audience = audience

    def hear_each(self, state: ConnectionState, window: ConnectionWindow) -> list[Outcome]:
        """Judge a window of one connection."""
        outcomes = super().hear_each(state, window)
        self._audience.fleet.record(state.conversation, window.observations, merged(outcomes).checks)
        return outcomes


class HeardIdentityJudge(IdentityJudge):
    """Tells the fleet how identities were judged, and the companions who showed which."""

    def __init__(self, audience: Audience, api_names: Mapping[int, str], terms: Terms) -> None:
        super().__init__(api_names, terms)
        self._audience = audience

    def hear(self, state: IdentityState, claims: Iterable[Claim]) -> Outcome:
        """Take claims in."""
        heard = list(claims)
        self._audience.companions.hear(heard)
        return self._told(super().hear(state, heard))

    def finish(self, state: IdentityState) -> Outcome:
        """Judge all that is known."""
        return self._told(super().finish(state))

    def _told(self, outcome: Outcome) -> Outcome:
        self._audience.fleet.record_verdicts(outcome.judged)
        return outcome
