"""Judging a connection: its facts, the states of its rules, and its findings so far.

The judge processes a window of observations and returns what to count and what to publish. A rule makes one
finding per connection. It is published when it is made, when its level rises, and, if its count has grown or
the client's principal or placement has changed, when `republish` is called or the connection closes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from decoders.frame.record import Kind, node_of, workload_of
from expectations.conversation.bodies import Heartbeat
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import (
    NO_EVIDENCE,
    ConnectionKey,
    Observation,
    Occurrence,
    Statement,
    Window,
)
from expectations.identity.claim import Claim
from expectations.identity.claim_tracker import ClaimTracker
from expectations.identity.shown import ShownIdentities
from expectations.judging.finding import Finding, finding_of
from expectations.judging.outcome import Outcome
from expectations.judging.terms import Terms, names_of
from expectations.rules.base.rule import FRAMES, METHODS, Judgement, Judgements, Level, Rule, Verdict, gravity
from expectations.rules.catalogue import RULE_STATES, state_reader

OVERLAID = "KIP-1313"
"""The KIP whose request header has two layouts."""
_CONFORMS = Verdict.CONFORMS
"""Looked up once: each judgement is compared with it."""


class OpenFinding(msgspec.Struct):
    """A finding of a connection that may still grow, and what it was last published with."""

    finding: Finding
    published: int = 0
    published_level: str = ""
    published_principal: str | None = None
    published_placement: str | None = None


class ConnectionState(msgspec.Struct):
    """All that is kept of a connection. `rules` is a RULE_STATES structure."""

    conversation: Conversation
    rules: RULE_STATES  # type: ignore[valid-type]  # made from the catalogue at run time
    findings: dict[str, OpenFinding] = {}
    identities: ShownIdentities = msgspec.field(default_factory=ShownIdentities)


def open_connection(key: ConnectionKey) -> ConnectionState:
    """Begin to follow a connection."""
    return ConnectionState(Conversation(key.id, key.cluster, key.client, key.server, key.run), RULE_STATES())


class RuleCall(NamedTuple):
    """How a rule is asked: its method, what reads its state, and its check."""

    rule: Rule
    method: Callable[[Observation, Conversation, Any], Judgements]
    state_in: Callable[[RULE_STATES], Any]  # type: ignore[valid-type]
    conforming: tuple[str, str]


class Dispatch(NamedTuple):
    """The rules that are asked about a kind of observation, and the checks that it passes unasked."""

    calls: list[RuleCall]
    passed: list[tuple[str, str]]


class Dispatcher:
    """Finds the rules to ask about each observation.

    A rule has methods for the kinds of observations that it judges, and may declare APIs and connections that
    use request header 3. Observations that differ in none of these are dispatched alike, so a dispatch is
    worked out once for all of them.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        self._named_apis = frozenset().union(*(rule.apis or () for rule in rules))
        self._dispatches: dict[tuple[Kind, int | None, bool, bool], Dispatch] = {}

    def dispatch(self, observation: Observation, conversation: Conversation) -> Dispatch:
        """Return the rules to ask about such an observation on such a connection."""
        statement = observation.statement
        api_key = statement.api_key if statement.api_key in self._named_apis else None
        key = statement.kind, api_key, conversation.uses_header_v3, statement.is_clean
        if key not in self._dispatches:
            self._dispatches[key] = self._found(*key)
        return self._dispatches[key]

    def _found(self, kind: Kind, api_key: int | None, uses_header_v3: bool, is_clean: bool) -> Dispatch:
        """Find the rules to ask. `api_key` is None for an API that no rule names."""
        concerned = [
            rule
            for rule in self._rules
            if kind in rule.kinds
            and (uses_header_v3 or not rule.needs_header_v3)
            and (kind not in FRAMES or rule.apis is None or api_key in rule.apis)
        ]
        passed = [rule for rule in concerned if is_clean and rule.passes_clean]
        calls = [
            RuleCall(rule, getattr(rule, METHODS[kind]), state_reader(rule), _conforming(rule))
            for rule in concerned
            if rule not in passed
        ]
        return Dispatch(calls, [_conforming(rule) for rule in passed])


def _conforming(rule: Rule) -> tuple[str, str]:
    return rule.id, str(Verdict.CONFORMS)


class Judge:
    """Judges connections by the rules of its terms. `api_names` maps API keys to names."""

    def __init__(self, api_names: Mapping[int, str], terms: Terms | None = None) -> None:
        self._api_names = api_names
        self.terms = terms or Terms()
        self._rules = [rule for rule in self.terms.rules if rule.kinds]
        closing = (rule for rule in self._rules if type(rule).close is not Rule.close)
        self._closing = [(rule, rule.close, state_reader(rule)) for rule in closing]
        self._dispatcher = Dispatcher(self._rules)

    def judge(self, state: ConnectionState, window: Window) -> Outcome:
        """Judge a window of one connection and update its state.

        Observations that were judged before, from a source that is read again, are skipped.
        """
        outcome = Outcome()
        state.conversation.configured = self.terms.brokers.get(window.connection.server)
        judged_until = state.conversation.progress.sequence
        for observation in window.observations:
            if observation.last_sequence > judged_until:
                self.judge_observation(state, observation, outcome)
        outcome.findings.extend(self._publish(state, everything=state.conversation.closed))
        return outcome

    def interrupt(self, state: ConnectionState) -> Outcome:
        """Judge a connection on which frames were lost without a record of that, as if by a gap."""
        progress, outcome = state.conversation.progress, Outcome()
        at, sequence = progress.captured_at, progress.sequence
        gap = Observation(Statement(Kind.GAP), Occurrence(sequence, sequence, at, at, NO_EVIDENCE))
        self.judge_observation(state, gap, outcome)
        outcome.findings.extend(self._publish(state, everything=False))
        return outcome

    def latest_claims(self, state: ConnectionState) -> list[Claim]:
        """Claim again each identity that the connection showed since its latest claim."""
        return list(ClaimTracker(state.identities, state.conversation).latest())

    def republish(self, state: ConnectionState) -> list[Finding]:
        """Return the findings that differ from what was last published."""
        return list(self._publish(state, everything=True))

    def judge_observation(self, state: ConnectionState, observation: Observation, outcome: Outcome) -> None:
        """Judge an observation and update the state. Adds to the outcome; publishes nothing."""
        conversation = state.conversation
        conversation.process(observation)
        outcome.claims.extend(ClaimTracker(state.identities, conversation).process(observation))
        dispatch = self._dispatcher.dispatch(observation, conversation)
        outcome.count_checks(dispatch.passed, observation.count)
        self._ask(dispatch.calls, state, observation, outcome)
        if observation.kind is Kind.CLOSED:
            for rule, close, state_in in self._closing:
                for judgement in close(conversation, state_in(state.rules)):
                    self._add(state, rule, judgement, observation, outcome)

    def _ask(
        self, calls: list[RuleCall], state: ConnectionState, observation: Observation, outcome: Outcome
    ) -> None:
        """Ask rules. Most have nothing to say, so the calls themselves must cost little."""
        conversation, states, checks = state.conversation, state.rules, outcome.checks
        for rule, judge, state_in, conforming in calls:
            for judgement in judge(observation, conversation, state_in(states)):
                if judgement.verdict is _CONFORMS:
                    checks[conforming] = checks.get(conforming, 0) + judgement.count
                else:
                    self._add(state, rule, judgement, observation, outcome)

    def _add(
        self,
        state: ConnectionState,
        rule: Rule,
        judgement: Judgement,
        observation: Observation,
        outcome: Outcome,
    ) -> None:
        outcome.count(rule, judgement)
        if judgement.verdict is not Verdict.VIOLATES:
            return
        subject = judgement.subject or observation
        known, decides = state.findings.get(rule.id), self.terms.decide is not None
        if known is not None and not decides and not _is_above(judgement.level or rule.level, known.finding):
            # Most offences repeat others: building a finding takes longer than the verdict.
            owner = self.terms.owner(names_of(state.conversation))
            outcome.count_repetition(rule, judgement, state.conversation.software, known.finding, owner)
            _repeat(known.finding, subject.last_captured_at, judgement)
            return
        fresh = self._finding(rule, judgement, subject, state.conversation)
        outcome.count_offence(self.terms.decided(fresh))
        if known is None:
            state.findings[rule.id] = OpenFinding(fresh)
            return
        _repeat(known.finding, subject.last_captured_at, judgement)
        if _is_above(Level(fresh.level), known.finding):
            known.finding.level, known.finding.message = fresh.level, fresh.message
            known.finding.context = fresh.context

    def _publish(self, state: ConnectionState, everything: bool) -> Iterator[Finding]:
        """Publish findings that are new or have risen in level, and all that differ if `everything` is due.

        They differ if they have grown, or if their client has another principal or placement, or was refused.
        """
        principal, placement = state.conversation.principal, state.conversation.placement
        for known in state.findings.values():
            finding = known.finding
            has_grown = known.published != finding.occurrences
            named = known.published_principal, known.published_placement
            differs = has_grown or named != (principal, placement)
            if known.published_level != finding.level or (everything and differs):
                known.published, known.published_level = finding.occurrences, finding.level
                known.published_principal, known.published_placement = principal, placement
                # The layout may have become known since the finding was made.
                layout = state.conversation.layout if finding.kip == OVERLAID else None
                yield self.terms.decided(
                    msgspec.structs.replace(
                        finding,
                        header_layout=layout or msgspec.UNSET,
                        principal=principal or msgspec.UNSET,
                        workload=workload_of(placement) or msgspec.UNSET,
                        node=node_of(placement) or msgspec.UNSET,
                    )
                )

    def _finding(
        self, rule: Rule, judgement: Judgement, subject: Observation, conversation: Conversation
    ) -> Finding:
        heartbeat = subject.body if isinstance(subject.body, Heartbeat) else None
        return finding_of(
            rule,
            judgement,
            subject,
            conversation,
            api=self._api_names.get(subject.api_key),
            cluster=conversation.cluster,
            listener=self.terms.listener(conversation.server),
            captured_at=subject.first_captured_at,
            last_captured_at=subject.last_captured_at,
            correlation_id=subject.correlation_id,
            member_id=heartbeat.member_id if heartbeat else None,
            group_id=heartbeat.group_id if heartbeat else None,
        )


def _repeat(known: Finding, last_captured_at: int, judgement: Judgement) -> None:
    """Count another offence of its rule in a finding."""
    known.occurrences += judgement.count
    known.last_captured_at = max(known.last_captured_at, last_captured_at)


def _is_above(level: Level, known: Finding) -> bool:
    """Whether a level is graver than that of a finding."""
    return gravity(level) < gravity(known.level)
