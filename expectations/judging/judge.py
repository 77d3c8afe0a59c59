"""Judging a connection: its facts, the states of its rules, and the findings made so far.

The judge is told a window of observations and says what to count and what to publish. A rule makes
one finding a connection: it is published when it is made, when its level rises, and, if it was seen
more often since, when it is asked for anew or the connection closes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from decoders.frame.record import Kind
from expectations.conversation.connection_window import ConnectionWindow
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import (
    Evidence,
    Heartbeat,
    Observation,
)
from expectations.identity.claim import Claim
from expectations.identity.claim_tracker import Witness
from expectations.identity.shown import Sightings
from expectations.judging.finding import Finding, Subject, finding_of
from expectations.judging.outcome import Outcome, merged
from expectations.judging.terms import Terms
from expectations.rules.base.identity_rule import IdentityRule
from expectations.rules.base.rule import FRAMES, Judgement, Level, Rule, Verdict
from expectations.rules.catalogue import NO_STATE, RULE_STATES, kept_name, state_of

OVERLAID = "KIP-1313"
"""The KIP whose request header has two layouts."""
_LEVELS = list(reversed(Level))


class OpenFinding(msgspec.Struct):
    """A finding of a connection that may still grow, and the count it was last published with."""

    finding: Finding
    published: int = 0
    published_level: str = ""

    @property
    def is_news(self) -> bool:
        """Whether it was never published, or at a lower level."""
        return self.published_level != self.finding.level

    @property
    def has_grown(self) -> bool:
        """Whether the published count is behind."""
        return self.published != self.finding.occurrences


class ConnectionState(msgspec.Struct):
    """All that is kept of a connection. `rules` is a RULE_STATES structure."""

    conversation: Conversation
    rules: RULE_STATES  # type: ignore[valid-type]  # made from the catalogue at run time
    findings: dict[str, OpenFinding] = {}
    sightings: Sightings = msgspec.field(default_factory=Sightings)


def open_connection(window: ConnectionWindow) -> ConnectionState:
    """Begin to follow a connection."""
    conversation = Conversation(window.connection, window.cluster, window.client, window.server, window.run)
    return ConnectionState(conversation, RULE_STATES())


class Asked(NamedTuple):
    """A rule that is asked, by its `judge`; the name of its state, None if it keeps none; its check."""

    rule: Rule
    judge: Callable[[Observation, Conversation, Any], Iterator[Judgement]]
    state_name: str | None
    conforming: tuple[str, str]


class Hearing(NamedTuple):
    """Who is told of an observation: the rules that are asked, and the checks that it passes unasked."""

    asked: list[Asked]
    passed: list[tuple[str, str]]


class Judge:
    """Judges connections on the terms given, naming APIs as it is told."""

    def __init__(self, api_names: Mapping[int, str], terms: Terms | None = None) -> None:
        self._api_names = api_names
        self._terms = terms or Terms()
        self._rules = [rule for rule in self._terms.rules if not isinstance(rule, IdentityRule)]
        self._named_apis = frozenset().union(*(rule.apis or () for rule in self._rules))
        self._hearings: dict[tuple[Kind, int | None, bool, bool], Hearing] = {}

    def hear(self, state: ConnectionState, window: ConnectionWindow) -> Outcome:
        """Judge a window of one connection and change its state; gives what it came to in all."""
        return merged(self.hear_each(state, window))

    def hear_each(self, state: ConnectionState, window: ConnectionWindow) -> list[Outcome]:
        """Judge a window of one connection and change its state; gives what each observation came to.

        What is to be published stands in the last outcome. Observations that the connection has heard
        before, from a source that was read again, are passed over and come to nothing.
        """
        outcomes = [Outcome() for _ in window.observations]
        state.conversation.configured = self._terms.brokers.get(window.server)
        heard = state.conversation.latest_sequence
        for observation, outcome in zip(window.observations, outcomes, strict=True):
            if observation.last_sequence > heard:
                self._hear_one(state, observation, outcome)
        if outcomes:
            outcomes[-1].findings.extend(self._publish(state, everything=state.conversation.closed))
        return outcomes

    def lose(self, state: ConnectionState) -> Outcome:
        """Judge a connection on which something was lost that no record tells of, where it stands."""
        said, outcome = state.conversation, Outcome()
        at, nowhere = said.latest_captured_at, Evidence(source="", bytes="")
        loss = Observation(Kind.GAP, said.latest_sequence, said.latest_sequence, at, at, nowhere)
        self._hear_one(state, loss, outcome)
        outcome.findings.extend(self._publish(state, everything=False))
        return outcome

    def latest_claims(self, state: ConnectionState) -> list[Claim]:
        """Tell again of the identities that the connection showed since it last told of them."""
        return list(Witness(state.sightings, state.conversation).latest())

    def republish(self, state: ConnectionState) -> list[Finding]:
        """Give the findings whose count has grown since they were last published."""
        return list(self._publish(state, everything=True))

    def _hear_one(self, state: ConnectionState, observation: Observation, outcome: Outcome) -> None:
        conversation = state.conversation
        conversation.hear(observation)
        outcome.claims.extend(Witness(state.sightings, conversation).hear(observation))
        if observation.is_matched:
            outcome.answered.add((observation.api_key, observation.api_version))
        hearing = self._hearing(observation, conversation)
        outcome.checks = dict.fromkeys(hearing.passed, observation.count)
        rules, checks = state.rules, outcome.checks
        for rule, judge, state_name, conforming in hearing.asked:
            kept = NO_STATE if state_name is None else getattr(rules, state_name)
            for judgement in judge(observation, conversation, kept):
                if judgement.verdict is Verdict.CONFORMS:
                    checks[conforming] = checks.get(conforming, 0) + judgement.count
                else:
                    self._take(state, rule, judgement, observation, outcome)
        if observation.kind is Kind.CLOSED:
            for rule in self._rules:
                for judgement in rule.close(conversation, state_of(state.rules, rule)):
                    self._take(state, rule, judgement, observation, outcome)

    def _hearing(self, observation: Observation, conversation: Conversation) -> Hearing:
        """Give the rules that hear such an observation on such a connection."""
        api_key = observation.api_key if observation.api_key in self._named_apis else None
        is_clean = observation.is_clean
        key = (observation.kind, api_key, conversation.uses_header_v3, is_clean)
        if key not in self._hearings:
            told = [rule for rule in self._rules if _is_told(rule, *key[:3])]
            passed = [rule for rule in told if is_clean and rule.passes_clean]
            others = [asked(rule) for rule in told if rule not in passed]
            self._hearings[key] = Hearing(others, [_conforming(rule) for rule in passed])
        return self._hearings[key]

    def _take(
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
        fresh = self._finding(rule, judgement, subject, state.conversation)
        outcome.count_offence(self._terms.decide(fresh))
        known = state.findings.get(rule.id)
        if known is None:
            state.findings[rule.id] = OpenFinding(fresh)
        else:
            _add(known.finding, fresh, judgement)

    def _publish(self, state: ConnectionState, everything: bool) -> Iterator[Finding]:
        for open_finding in state.findings.values():
            if open_finding.is_news or (everything and open_finding.has_grown):
                open_finding.published = open_finding.finding.occurrences
                open_finding.published_level = open_finding.finding.level
                yield self._published(open_finding.finding, state.conversation)

    def _published(self, finding: Finding, conversation: Conversation) -> Finding:
        """Give a finding as it is published: what it says beyond what is kept of it may change meanwhile."""
        layout = conversation.layout if finding.kip == OVERLAID else None
        return self._terms.decide(msgspec.structs.replace(finding, header_layout=layout or msgspec.UNSET))

    def _finding(
        self, rule: Rule, judgement: Judgement, subject: Observation, conversation: Conversation
    ) -> Finding:
        about = _subject(subject, conversation, self.listener(conversation.server))
        return finding_of(rule, judgement, about, self._api_names.get(subject.api_key))

    def listener(self, server: str) -> str:
        """Name a listener as configured, or by its address."""
        return self._terms.listener(server)


def _subject(observation: Observation, conversation: Conversation, listener: str) -> Subject:
    heartbeat = observation.body if isinstance(observation.body, Heartbeat) else None
    return Subject(
        connection=conversation.connection,
        sequence=observation.first_sequence,
        captured_at=observation.first_captured_at,
        last_captured_at=observation.last_captured_at,
        evidence=observation.evidence,
        api_key=observation.api_key,
        api_version=observation.api_version,
        correlation_id=observation.correlation_id,
        cluster=conversation.cluster,
        client=conversation.client,
        broker=conversation.server,
        listener=listener,
        client_id=conversation.client_id,
        software=conversation.software,
        instance_id=conversation.instance_id,
        member_id=heartbeat.member_id if heartbeat else None,
        group_id=heartbeat.group_id if heartbeat else None,
    )


def asked(rule: Rule) -> Asked:
    """Make what is needed to ask a rule."""
    return Asked(rule, rule.judge, kept_name(rule), _conforming(rule))


def _conforming(rule: Rule) -> tuple[str, str]:
    return rule.id, str(Verdict.CONFORMS)


def _is_told(rule: Rule, kind: Kind, api_key: int | None, uses_header_v3: bool) -> bool:
    if rule.needs_header_v3 and not uses_header_v3:
        return False
    return kind in rule.kinds and (kind not in FRAMES or rule.apis is None or api_key in rule.apis)


def _add(known: Finding, fresh: Finding, judgement: Judgement) -> None:
    """Let a finding grow by another offence of its rule."""
    known.occurrences += judgement.count
    known.last_captured_at = max(known.last_captured_at, fresh.last_captured_at)
    if _LEVELS.index(Level(fresh.level)) > _LEVELS.index(Level(known.level)):
        known.level, known.message, known.context = fresh.level, fresh.message, fresh.context
