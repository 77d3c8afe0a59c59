"""The last stage of the query: claims of connections are judged together, identity by identity.

It is keyed by bucket of identity. Reports of the stage before pass through it untouched.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from decoders.schema.registry import schemas_of
from expectations.identity.claim import Claim
from expectations.judging.identity_judge import IdentityJudge, IdentityState
from expectations.judging.terms import Terms
from streaming.judging.identity_step import (
    IdentityStep,
    bucket_of_identity,
)
from streaming.judging.report import Report
from streaming.query.partition_keys import bucket_of_key, key_of_bucket
from streaming.query.value_state import StoredBytes
from streaming.query.worker import begin_task, end_task
from streaming.state.identity_layout import pack_identities, unpack_identities

STEPPED_SCHEMA = "identities int, stepped binary"
REPORT_SCHEMA = "bucket int, report binary"
TICK_INTERVAL = 60_000
"""Milliseconds between two ticks: a claim is settled after one to two of them."""
PASSAGES = 16
"""Keys by which reports pass through: each key costs round trips, be there one report of it or a hundred."""


class Stepped(msgspec.Struct):
    """What the stage before hands on: a report to pass through, as msgpack, or claims to judge."""

    report: bytes | None = None
    claims: list[Claim] = []


_DECODER = msgspec.msgpack.Decoder(Stepped)


def stepped_rows(report: Report, buckets: int) -> Iterator[Row]:
    """Lay a report out as rows: its claims by the key of the bucket of identity, and the rest of it."""
    claims: dict[int, list[Claim]] = {}
    for claim in report.claims:
        claims.setdefault(bucket_of_identity(claim.identity, buckets), []).append(claim)
    report.claims = []
    yield _row(key_of_bucket(report.bucket % PASSAGES), Stepped(report=msgspec.msgpack.encode(report)))
    for number, given in claims.items():
        yield _row(key_of_bucket(number), Stepped(claims=given))


def _row(key: int, stepped: Stepped) -> Row:
    return Row(identities=key, stepped=msgspec.msgpack.encode(stepped))


class IdentityProcessor(StatefulProcessor):
    """Steps the state of one bucket of identities, which has a timer for as long as it has a state."""

    def __init__(self, terms: Terms, table: str | None = None) -> None:
        self._terms = terms
        self._table = table

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Take hold of the state and of the timer."""
        begin_task()
        self._handle = handle
        self._stored = StoredBytes(handle, "identities")
        names = schemas_of(self._table).api_names
        self._step = IdentityStep(IdentityJudge(names, self._terms))

    def handleInputRows(
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,
    ) -> Iterator[Row]:
        """Pass reports through and judge the claims."""
        claims: list[Claim] = []
        for row in rows:
            stepped = _DECODER.decode(row.stepped)
            claims.extend(stepped.claims)
            if stepped.report is not None:
                yield Row(bucket=key[0], report=stepped.report)
        if claims:
            yield self._process(bucket_of_key(key[0]), claims, timerValues.getCurrentProcessingTimeInMs())

    def handleExpiredTimer(
        self,
        key: Any,
        timerValues: Any,
        expiredTimerInfo: Any,
    ) -> Iterator[Row]:
        """Judge what has settled; a bucket that is empty is given up."""
        state = unpack_identities(self._stored.read())
        report = self._step.tick(bucket_of_key(key[0]), state)
        if state.groups:
            self._handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + TICK_INTERVAL)
            yield self._store(state, report)
        else:
            self._stored.clear()
            yield _report_row(report)

    def close(self) -> None:
        """End the task. Nothing is held beyond the state store."""
        end_task()

    def _process(self, number: int, claims: list[Claim], now: int) -> Row:
        stored = self._stored.read()
        if stored is None:
            self._handle.registerTimer(now + TICK_INTERVAL)
        state = unpack_identities(stored)
        return self._store(state, self._step.process(number, state, claims))

    def _store(self, state: IdentityState, report: Report) -> Row:
        packed = pack_identities(state)
        self._stored.write(packed)
        report.state_bytes = len(packed)
        return _report_row(report)


def _report_row(report: Report) -> Row:
    return Row(bucket=report.bucket, report=msgspec.msgpack.encode(report))
