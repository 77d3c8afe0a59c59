"""A scripted exchange that is observed record by record and judged: the oracle of what the query does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from decoders.frame.record import Direction, Kind, Record
from decoders.schema.registry import default_schemas
from expectations.cases.notation import (
    ADVERTISED,
    ID_A,
    ID_B,
    SECOND,
    SOFTWARE,
    ZERO_ID,
    WrittenExchange,
    advertisement,
)
from expectations.conversation.observation import Window
from expectations.conversation.progress import ApiVersion
from expectations.identity.claim import Claim
from expectations.identity.server_claim import answered_claim, is_remembered, kafka_claim
from expectations.judging.identity_judge import IdentityJudge
from expectations.judging.identity_state import IdentityState
from expectations.judging.judge import ConnectionState, Judge, open_connection
from expectations.judging.outcome import Outcome
from expectations.judging.terms import Terms
from expectations.report.coverage import coverage_of
from expectations.rules.base.rule import Rule
from expectations.rules.catalogue import RULES
from tests.expectations.conversation.scalar_windows import Said, in_file, windows_of

__all__ = ["ADVERTISED", "ID_A", "ID_B", "SECOND", "SOFTWARE", "ZERO_ID", "Exchange", "advertisement"]


class Exchange(WrittenExchange):
    """Records of one connection, or of several in one capture, and what is judged of them."""

    def log_in(self, name: str, error_code: int = 0, token: str = "", **how: Any) -> None:
        """Shake hands, and send a token, in base64, that shows a name. The broker responds with the error."""
        handshake = self.request("SaslHandshake", 1, {"mechanism": "PLAIN"}, **how)
        self.respond(handshake, {"mechanisms": ["PLAIN"]})
        login = self.request("SaslAuthenticate", 2, {"authBytes": token}, **how)
        self.show_name(name)
        self.respond(login, {"errorCode": error_code})

    def beat(self, member_id: str, epoch: int = 1, version: int = 1, **how: Any) -> Record:
        """Send a heartbeat of a consumer in the group g. By default the client ID is app."""
        body = {"groupId": "g", "memberId": member_id, "memberEpoch": epoch}
        return self.request("ConsumerGroupHeartbeat", version, body, **{"client_id": "app", **how})

    def show_name(self, name: str) -> None:
        """Show a name under which the client logs in."""
        self._add(Kind.PRINCIPAL, frame=name.encode(), direction=Direction.TO_BROKER, true_length=0)

    def show_placement(self, placement: str) -> None:
        """Say where the client runs, as a feeder does that watches pods."""
        self._add(Kind.PLACEMENT, frame=placement.encode(), true_length=0)

    def windows(self, size: int = 10_000, said: Said | None = None) -> list[Window]:
        """Observe and fold the records in windows of a size; `said` is remembered from one to the next."""
        placed = [(record, in_file("exchange", record)) for record in self.records]
        return [
            window
            for start in range(0, len(placed), size)
            for window in windows_of(default_schemas(), placed[start : start + size], said)
        ]

    def judge(
        self,
        size: int = 10_000,
        rules: Sequence[Rule] = RULES,
        said: Said | None = None,
        judge: Judge | None = None,
    ) -> Outcome:
        """Judge the exchange: checks and offences added up, findings as last published."""
        names = default_schemas().api_names
        judge = judge or Judge(names, Terms(rules))
        identity_judge = IdentityJudge(names, Terms(rules))
        states: dict[bytes, ConnectionState] = {}
        identities, outcomes = IdentityState(), []
        for window in self.windows(size, said):
            state = states.setdefault(window.connection.id, open_connection(window.connection))
            outcome = judge.judge(state, window)
            outcomes += [outcome, identity_judge.process(identities, claims_of(outcome, window))]
        for state in states.values():
            outcomes.append(Outcome(findings=judge.republish(state)))
            outcomes.append(identity_judge.process(identities, judge.latest_claims(state)))
        return added_up([*outcomes, identity_judge.finish(identities)])

    def verdicts(self, rule: str) -> tuple[int, int, int]:
        """How often a rule said: conforms, violates, undecided."""
        (row,) = coverage_of(self.judge().checks, [each for each in RULES if each.id == rule])
        return row.conforms, row.violates, row.undecided


def claims_of(outcome: Outcome, window: Window) -> list[Claim]:
    """All that a window tells of identities."""
    first: dict[ApiVersion, int] = {}
    for seen in window.observations:
        if seen.is_matched and is_remembered(seen.api_key, seen.api_version):
            first.setdefault((seen.api_key, seen.api_version), seen.first_captured_at)
    answered = [
        answered_claim(window.connection.cluster, window.connection.server, *version, at)
        for version, at in first.items()
    ]
    return outcome.claims + answered + [kafka_claim(window.connection)] * bool(answered)


def added_up(outcomes: Sequence[Outcome]) -> Outcome:
    """Checks added up, and findings as last published."""
    total, findings = Outcome(), {}
    for outcome in outcomes:
        for key, count in outcome.checks.items():
            total.checks[key] = total.checks.get(key, 0) + count
        findings.update({finding.id: finding for finding in outcome.findings})
    total.findings = list(findings.values())
    return total
