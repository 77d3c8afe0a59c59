"""The last stage of the query: judges the claims of all connections on one identity together.

Its key is the bucket of an identity. Reports of the previous stage pass through unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from decoders.schema.registry import schemas_of
from expectations.identity.claim import Claim
from expectations.judging.identity_judge import IdentityJudge
from expectations.judging.terms import Terms
from streaming.judging.identity_step import IdentityStep
from streaming.judging.report import Report, pack_report
from streaming.query.partition_keys import bucket_of_key
from streaming.query.stepped import unpack_stepped
from streaming.query.value_state import StoredBytes, StoredPages
from streaming.query.worker import begin_task, end_task
from streaming.state.identities import StoredIdentities
from streaming.state.identity_layout import pack_identities, unpack_identities

REPORT_SCHEMA = "bucket int, report binary"
TICK_INTERVAL = 60_000
"""Milliseconds between two ticks: a claim is settled after one to two of them."""


class IdentityProcessor(StatefulProcessor):
    """Judges the identities of one bucket. The bucket has a timer for as long as it has state."""

    tick_interval: ClassVar[int] = TICK_INTERVAL

    def __init__(self, terms: Terms, table: str | None = None) -> None:
        self._terms = terms
        self._table = table

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the bucket's state."""
        begin_task()
        self._handle = handle
        self._index = StoredBytes(handle, "identities")
        self._pages = StoredPages(handle, "pages")
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
            stepped = unpack_stepped(row.stepped)
            for part in stepped.claims:
                claims += part
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
        """Judge settled claims, and clear the state of an empty bucket."""
        state = unpack_identities(self._index.read(), self._pages.read)
        now = timerValues.getCurrentProcessingTimeInMs()
        report = self._step.tick(bucket_of_key(key[0]), state, now)
        if len(state):
            self._handle.registerTimer(now + self.tick_interval)
            yield self._store(state, report)
        else:
            self._index.clear()
            self._pages.clear()
            yield _report_row(report)

    def close(self) -> None:
        """End the task. All state is in the state store."""
        end_task()

    def _process(self, number: int, claims: list[Claim], now: int) -> Row:
        stored = self._index.read()
        if stored is None:
            # Spread over the minute: otherwise the buckets of a first batch would all tick in one batch.
            self._handle.registerTimer(now + self.tick_interval - number * 997 % self.tick_interval)
        state = unpack_identities(stored, self._pages.read)
        return self._store(state, self._step.process(number, state, claims))

    def _store(self, state: StoredIdentities, report: Report) -> Row:
        packed = pack_identities(state)
        self._index.write(packed.index)
        for number, page in packed.written.items():
            self._pages.write(number, page)
        for number in packed.removed:
            self._pages.remove(number)
        report.state_bytes = packed.size
        return _report_row(report)


def _report_row(report: Report) -> Row:
    return Row(bucket=report.bucket, report=pack_report(report))
