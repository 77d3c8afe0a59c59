"""Judging a connection: its facts, the states of its rules, and the findings made so far.

The judge is told a window of observations and says what to count and what to publish. A rule makes
one finding a connection: it is published when it is made, when its level rises, and, if it was seen
more often since, when it is asked for anew or the connection closes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from decoders.frame.record import Kind
from expectations.catalogue import RULE_STATES, RULES, state_of
from expectations.conversation.conversation import Conversation
from expectations.conversation.identifier import identifier_text
from expectations.conversation.observation import (
    ClusterDescription,
    ConnectionWindow,
    Evidence,
    Heartbeat,
    Observation,
)
from expectations.finding import Finding, finding_id, printable, runbook_anchor
from expectations.identity.claim import Claim
from expectations.identity.sightings import Sightings, Witness
from expectations.identity_rule import IdentityRule
from expectations.rule import FRAMES, Judgement, Level, Rule, Verdict

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


class Offence(msgspec.Struct, frozen=True, array_like=True):
    """What offences are counted by: the rule, how much it weighs, and whose software offends."""

    rule: str
    level: str
    role: str
    software_name: str | None
    software_version: str | None


class Outcome(msgspec.Struct):
    """What a window brought: findings to publish, checks by (rule id, verdict), offences made.

    `claims` are what it told of identities that other connections may share, `answered` the API
    versions that the broker answered, `judged` by (connection, rule id, verdict) whom the checks of
    identities were about.
    """

    findings: list[Finding] = []
    checks: dict[tuple[str, str], int] = {}
    offences: dict[Offence, int] = {}
    claims: list[Claim] = []
    answered: set[tuple[int, int]] = set()
    judged: list[tuple[bytes, str, str]] = []

    def count(self, rule: Rule, judgement: Judgement) -> None:
        """Count one judgement."""
        key = (rule.id, str(judgement.verdict))
        self.checks[key] = self.checks.get(key, 0) + judgement.count

    def count_offence(self, finding: Finding) -> None:
        """Count an offence. One that only rises in level counts once at its new level."""
        software = (finding.client_software_name, finding.client_software_version)
        offence = Offence(finding.rule, finding.level, finding.role, *software)
        self.offences[offence] = self.offences.get(offence, 0) + max(finding.occurrences, 1)


def open_connection(window: ConnectionWindow) -> ConnectionState:
    """Begin to follow a connection."""
    conversation = Conversation(window.connection, window.cluster, window.client, window.server, window.run)
    return ConnectionState(conversation, RULE_STATES())


class Judge:
    """Judges connections by the rules given, naming APIs and listeners as it is told.

    `brokers` says which cluster and node stand behind a server address, where that is configured.
    """

    def __init__(
        self,
        api_names: Mapping[int, str],
        listeners: Mapping[str, str] | None = None,
        rules: Sequence[Rule] = RULES,
        brokers: Mapping[str, ClusterDescription] | None = None,
    ) -> None:
        self._brokers = brokers or {}
        self._api_names = api_names
        self._listeners = listeners or {}
        self._rules = [rule for rule in rules if not isinstance(rule, IdentityRule)]
        self._named_apis = frozenset().union(*(rule.apis or () for rule in self._rules))
        self._told: dict[tuple[Kind, int | None], list[Rule]] = {}

    def hear(self, state: ConnectionState, window: ConnectionWindow) -> Outcome:
        """Judge a window of one connection and change its state.

        Observations that the connection has heard before, from a source that was read again, are
        passed over.
        """
        outcome = Outcome()
        state.conversation.configured = self._brokers.get(window.server)
        heard = state.conversation.latest_sequence
        for observation in window.observations:
            if observation.last_sequence > heard:
                self._hear_one(state, observation, outcome)
        outcome.findings.extend(self._publish(state, everything=state.conversation.closed))
        return outcome

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
        for rule in self._rules_told(observation):
            for judgement in rule.judge(observation, conversation, state_of(state.rules, rule)):
                self._take(state, rule, judgement, observation, outcome)
        if observation.kind is Kind.CLOSED:
            for rule in self._rules:
                for judgement in rule.close(conversation, state_of(state.rules, rule)):
                    self._take(state, rule, judgement, observation, outcome)

    def _rules_told(self, observation: Observation) -> list[Rule]:
        """Give the rules that hear observations of this kind and API."""
        api_key = observation.api_key if observation.api_key in self._named_apis else None
        key = (observation.kind, api_key)
        if key not in self._told:
            self._told[key] = [rule for rule in self._rules if _is_told(rule, *key)]
        return self._told[key]

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
        outcome.count_offence(fresh)
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
                yield msgspec.structs.replace(open_finding.finding)

    def _finding(
        self, rule: Rule, judgement: Judgement, subject: Observation, conversation: Conversation
    ) -> Finding:
        api = self._api_names.get(subject.api_key)
        heartbeat = subject.body if isinstance(subject.body, Heartbeat) else None
        software = conversation.software
        names = {"api": api or f"API {subject.api_key}", "version": subject.api_version}
        return Finding(
            id=finding_id(rule.id, conversation.connection, subject.first_sequence),
            rule=rule.id,
            kip=rule.kip,
            section=rule.section,
            level=judgement.level or rule.level,
            role=judgement.role or rule.role,
            spec=rule.spec,
            message=printable(rule.message.format(**names, **judgement.context)),
            expected=judgement.expected,
            observed=judgement.observed,
            context=judgement.context,
            occurrences=judgement.count,
            first_captured_at=subject.first_captured_at,
            last_captured_at=subject.last_captured_at,
            cluster=conversation.cluster,
            connection=conversation.connection.hex(),
            client=conversation.client,
            broker=conversation.server,
            listener=self.listener(conversation.server),
            client_id=conversation.client_id,
            client_software_name=software.name if software else None,
            client_software_version=software.version if software else None,
            client_instance_id=identifier_text(conversation.instance_id)
            if conversation.instance_id
            else None,
            member_id=heartbeat.member_id if heartbeat else None,
            group_id=heartbeat.group_id if heartbeat else None,
            api=api,
            api_key=subject.api_key,
            api_version=subject.api_version,
            correlation_id=subject.correlation_id,
            sequence=subject.first_sequence,
            captured_at=subject.first_captured_at,
            evidence=subject.evidence,
            runbook=runbook_anchor(rule.id),
        )

    def listener(self, server: str) -> str:
        """Name a listener as configured, or by its address."""
        return self._listeners.get(server, server)


def _is_told(rule: Rule, kind: Kind, api_key: int | None) -> bool:
    return kind in rule.hears and (kind not in FRAMES or rule.apis is None or api_key in rule.apis)


def _add(known: Finding, fresh: Finding, judgement: Judgement) -> None:
    """Let a finding grow by another offence of its rule."""
    known.occurrences += judgement.count
    known.last_captured_at = max(known.last_captured_at, fresh.last_captured_at)
    if _LEVELS.index(Level(fresh.level)) > _LEVELS.index(Level(known.level)):
        known.level, known.message, known.context = fresh.level, fresh.message, fresh.context
