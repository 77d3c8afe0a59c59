"""The step of identities: its stored state, the bucket of a claim, and reports that pass through."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from decoders.retention import KEPT_FOR, MILLISECOND
from decoders.schema.registry import default_schemas
from expectations.identity.claim import Claim, IdentityKind
from expectations.identity.packed_claims import PackedClaims
from expectations.judging.identity_judge import IdentityJudge
from expectations.judging.identity_state import IdentityState
from expectations.judging.terms import Terms
from streaming.judging.report import Report, unpack_report
from streaming.judging.step import identity_report
from streaming.query.stage_rows import (
    Stepped,
    TaskClaims,
    bucket_of_key,
    key_of_bucket,
    report_row,
    unpack_stepped,
)
from streaming.query.stages import IdentityProcessor
from streaming.state.bucket import Bucket
from streaming.state.identities import unpack_identities
from tests.exchange import Exchange
from tests.expectations.judging.claims import claims_of_all, instance, negotiated
from tests.streaming.judging.test_step import step
from tests.streaming.judging.travelling import bucket_of, windows
from tests.streaming.query.stand_in import Map

JUDGE = IdentityJudge(default_schemas().api_names)


def claims() -> list[Claim]:
    return claims_of_all(negotiated(1, asks=True)) + claims_of_all(negotiated(2, asks=False))


def test_a_claim_about_a_server_is_sent_once_and_not_for_each_connection() -> None:
    bucket, sent = Bucket(), []
    for connection in (b"1" * 16, b"2" * 16):
        exchange = Exchange(connection=connection)
        exchange.negotiate(client_id="app")
        sent.append(
            [
                claim
                for claim in step().process(0, bucket, windows(exchange)).claims
                if not claim.connection and claim.ranges is None
            ]
        )
    assert [claim.api_key for claim in sent[0]] == [18]
    assert sent[1] == []


def test_a_tick_sends_claims_only_for_identities_in_use() -> None:
    bucket, exchange = Bucket(), instance(1)
    step().process(0, bucket, windows(exchange))
    assert step().tick(0, bucket, 1_800_000_000_000).claims == PackedClaims()
    exchange.request("Metadata", 14, instance_id=bytes(range(16)))
    step().process(0, bucket, windows(exchange))
    kinds = {claim.identity.kind for claim in step().tick(0, bucket, 1_800_001_000_000).claims}
    assert kinds == {IdentityKind.INSTANCE, IdentityKind.CLIENT}


def test_reports_of_identities_have_negative_bucket_numbers() -> None:
    processed, ticked = JUDGE.process(IdentityState(), []), JUDGE.tick(IdentityState())
    assert [identity_report(0, processed).bucket, identity_report(5, ticked).bucket] == [-1, -6]


class Handle:
    """A stand-in for Spark's state store: the index, the pages and the registered timers."""

    def __init__(self) -> None:
        self.stored: tuple[bytes] | None = None
        self.pages: dict[tuple[int], tuple[bytes]] = {}
        self.timers: list[int] = []

    def getValueState(self, _name: str, _schema: str) -> Handle:  # noqa: N802 - Spark's name
        return self

    def getMapState(self, _name: str, _key_schema: str, _schema: str) -> Map:  # noqa: N802
        return Map(lambda: self.pages)

    def registerTimer(self, at: int) -> None:  # noqa: N802 - Spark's name
        self.timers.append(at)

    def get(self) -> tuple[bytes] | None:
        return self.stored

    def update(self, value: tuple[bytes]) -> None:
        self.stored = value

    def clear(self) -> None:
        self.stored = None


@pytest.fixture
def handle() -> Handle:
    return Handle()


@pytest.fixture
def processor(handle: Handle) -> IdentityProcessor:
    processor = IdentityProcessor(Terms())
    processor.init(handle)
    return processor


def clock(now: int) -> Any:
    return SimpleNamespace(getCurrentProcessingTimeInMs=lambda: now)


def reports(rows: Iterator[Any]) -> list[Report]:
    return [unpack_report(row.report) for row in rows]


def test_a_report_without_claims_passes_through_and_touches_no_state(
    processor: IdentityProcessor, handle: Handle
) -> None:
    report = Report(7, captured={1: 2})
    rows = iter([report_row(report)])
    passed = reports(processor.handleInputRows((7,), rows, clock(0)))
    assert passed == [report]
    assert (handle.stored, handle.timers) == (None, [])


def test_a_clock_that_is_wrong_by_years_makes_no_other_identity_be_forgotten(
    processor: IdentityProcessor,
) -> None:
    """The claims of connections with the right clock settle as ever."""
    told = claims()
    now = max(claim.until for claim in told) // MILLISECOND
    future = Exchange(connection=b"f" * 16, client="10.0.0.9:1", at=now * MILLISECOND + 75 * 365 * KEPT_FOR)
    future.negotiate(client_id="late")
    stepped = Stepped(claims=PackedClaims.of(told + claims_of_all(future)))
    row, key = SimpleNamespace(stepped=msgspec.msgpack.encode(stepped)), (key_of_bucket(0),)
    reports(processor.handleInputRows(key, iter([row]), clock(now)))
    found = [
        finding.rule
        for _ in range(3)
        for report in reports(processor.handleExpiredTimer(key, clock(now), None))
        for finding in report.findings
    ]
    assert found == ["kip35/negotiation-not-repeated"]


def test_claims_of_a_task_are_divided_by_identity_with_one_row_for_each_bucket() -> None:
    of_task, told = TaskClaims(4), claims()
    for part in ([], told[:2], told[2:], told):
        of_task.add(PackedClaims.of(part))
    rows = [*of_task.rows()]
    divided = {bucket_of_key(row.identities): unpack_stepped(row.stepped).claims for row in rows}
    assert len(divided) == len(rows) <= 4
    for number, packed in divided.items():
        assert {bucket_of(claim.identity.digest, 4) for claim in packed} == {number}
    passed = [claim for packed in divided.values() for claim in packed]
    assert sorted(map(repr, passed)) == sorted(map(repr, [*told, *told]))
    assert (of_task.size, [*of_task.rows()]) == (0, [])


def test_timers_judge_claims_and_clear_an_empty_bucket(processor: IdentityProcessor, handle: Handle) -> None:
    stepped = Stepped(claims=PackedClaims.of(claims()))
    row, key = SimpleNamespace(stepped=msgspec.msgpack.encode(stepped)), (key_of_bucket(0),)
    reports(processor.handleInputRows(key, iter([row]), clock(1_000)))
    assert handle.timers == [60_000]
    found = [
        finding.rule
        for at in (60_000, 120_000)
        for report in reports(processor.handleExpiredTimer(key, clock(at), None))
        for finding in report.findings
    ]
    assert found == ["kip35/negotiation-not-repeated"]
    assert handle.pages
    handle.stored = (unpack_identities(None, lambda _: None).packed().index,)
    reports(processor.handleExpiredTimer(key, clock(180_000), None))
    assert handle.stored is None
    assert not handle.pages
    assert handle.timers == [60_000, 120_000, 180_000]
