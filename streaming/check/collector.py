"""Collects what judging a whole source shows beside findings: the fleet's report, and related connections.

The judges of `check` pass it what they see. The query's workers judge without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from expectations.conversation.window import Window
from expectations.identity.claim import Claim, Identity
from expectations.judging.finding import Finding
from expectations.judging.identity_judge import IdentityJudge
from expectations.judging.identity_state import Identities, IdentityState
from expectations.judging.judge import ConnectionState, Judge
from expectations.judging.outcome import Outcome, merged
from expectations.judging.terms import Terms
from expectations.report.fleet import Fleet
from expectations.rules.base.identity_rule import IdentityRule
from expectations.rules.base.rule import Rule


class Companions:
    """The connections that showed the same identity."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = {rule.id: rule for rule in rules if isinstance(rule, IdentityRule)}
        self._identities: dict[str, set[Identity]] = {}
        self._connections: dict[Identity, dict[str, int]] = {}

    def add(self, claims: Iterable[Claim]) -> None:
        """Add claims. An advertisement of a server belongs to the connection that it was made to."""
        for claim in claims:
            connection = (claim.connection or claim.witness).hex()
            if connection:
                self._identities.setdefault(connection, set()).add(claim.identity)
                self._connections.setdefault(claim.identity, {})[connection] = claim.opened_at

    def of(self, finding: Finding) -> list[str]:
        """Return the connections that a finding is about, in hex.

        Its own comes first, then those it was compared with: the latest before it, the earlier ones, and
        those after it.
        """
        rule, shown = self._rules.get(finding.rule), self._identities.get(finding.connection, ())
        if rule is None:
            return [finding.connection]
        about = [finding.connection]
        for identity in sorted(shown, key=lambda identity: (identity.kind, identity.name)):
            if rule.judges(identity.kind):
                opened_at = self._connections[identity]
                connections = sorted(opened_at, key=lambda each: (opened_at[each], each))
                own = connections.index(finding.connection)
                about += [*reversed(connections[:own]), *connections[own:]]
        return list(dict.fromkeys(about))


class Collector:
    """The fleet's report and the companions of findings, filled while a source is judged."""

    def __init__(self, rules: Sequence[Rule], api_names: Mapping[int, str]) -> None:
        self.rules = rules
        self.fleet = Fleet(rules, api_names)
        self.companions = Companions(rules)


class CollectingJudge(Judge):
    """Records in the fleet what each connection said and how it was judged."""

    sees_all = True

    def __init__(self, collector: Collector, api_names: Mapping[int, str], terms: Terms) -> None:
        super().__init__(api_names, terms)
        self._collector = collector

    def judge_each(self, state: ConnectionState, window: Window) -> list[Outcome]:
        """Judge a window of one connection."""
        outcomes = super().judge_each(state, window)
        checks = merged(outcomes).checks
        self._collector.fleet.record(state.conversation, window.observations, checks)
        return outcomes


class CollectingIdentityJudge(IdentityJudge):
    """Records verdicts on identities in the fleet, and who showed which identity."""

    def __init__(self, collector: Collector, api_names: Mapping[int, str], terms: Terms) -> None:
        super().__init__(api_names, terms)
        self._collector = collector

    def process(self, state: Identities, claims: Iterable[Claim]) -> Outcome:
        """Process claims."""
        claims = list(claims)
        self._collector.companions.add(claims)
        return self._recorded(super().process(state, claims))

    def finish(self, state: IdentityState) -> Outcome:
        """Judge everything: no further claim will come."""
        return self._recorded(super().finish(state))

    def _recorded(self, outcome: Outcome) -> Outcome:
        self._collector.fleet.record_verdicts(outcome.judged)
        return outcome
