"""The step of connections as Spark calls it, but without Spark: what is stored, refused, scheduled."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from pyspark.sql import Row

from expectations.conversation.observation import ConnectionWindow
from streaming.query.bucket import Report, StateVersionError, unpack_bucket
from streaming.query.identity_stage import Stepped
from streaming.query.stages import SUMMARY_INTERVAL, BucketProcessor, Folded
from tests.exchange import Exchange
from tests.streaming.query.test_bucket import windows

NOW = 1_800_000_000_000
BUCKETS = 8


class Store:
    """Spark's handle, state and clock of one bucket."""

    def __init__(self) -> None:
        self.value: tuple[bytes] | None = None
        self.writes = 0
        self.timers: list[int] = []

    def getValueState(self, _name: str, _schema: str) -> Store:  # noqa: N802 - Spark's name
        return self

    def get(self) -> tuple[bytes] | None:
        return self.value

    def update(self, value: tuple[bytes]) -> None:
        self.value, self.writes = value, self.writes + 1

    def registerTimer(self, due: int) -> None:  # noqa: N802
        self.timers.append(due)

    def getCurrentProcessingTimeInMs(self) -> int:  # noqa: N802
        return NOW


def hear(
    store: Store, said: list[ConnectionWindow], number: int = 3, buckets: int = BUCKETS, resumed_at: int = 0
) -> Report:
    processor: Any = BucketProcessor(buckets, {}, resumed_at=resumed_at)
    processor.init(store)
    rows = [Row(folded=msgspec.msgpack.encode(Folded(said)))]
    stepped = [
        msgspec.msgpack.decode(row.stepped, type=Stepped)
        for row in processor.handleInputRows((number,), iter(rows), store)
    ]
    (report,) = [msgspec.msgpack.decode(one.report, type=Report) for one in stepped if one.report]
    return report


def asking() -> Exchange:
    exchange = Exchange()
    exchange.negotiate(client_id="app")
    exchange.answer(exchange.request("Metadata", 12, client_id="app"))
    return exchange


def test_what_was_heard_before_is_not_written_again() -> None:
    store, exchange = Store(), asking()
    hear(store, windows(exchange))
    assert store.writes == 1
    report = hear(store, windows(exchange))
    assert store.writes == 1
    assert report.state_bytes == len(store.value[0]) if store.value else False
    exchange.request("Metadata", 12, client_id="app")
    hear(store, windows(exchange, len(exchange.records) - 1))
    assert store.writes == 2


def test_another_number_of_buckets_is_refused_and_says_what_to_do() -> None:
    store = Store()
    hear(store, windows(asking()))
    with pytest.raises(StateVersionError, match=f"made with {BUCKETS} buckets, not 9: run with --buckets 8"):
        hear(store, windows(asking()), buckets=9)


def test_a_bucket_has_one_timer_and_those_of_many_are_spread() -> None:
    due = []
    for number in range(200):
        store = Store()
        for _ in range(2):
            hear(store, windows(asking()), number)
        (timer,) = store.timers
        due.append(timer - NOW)
    assert min(due) > 0 and max(due) <= SUMMARY_INTERVAL
    assert len({after // 1_000 for after in due}) > 40


def test_after_a_loss_known_connections_are_interrupted_once_and_new_ones_are_not() -> None:
    store, exchange = Store(), asking()
    hear(store, windows(exchange))
    known = len(exchange.records)
    exchange.request("Metadata", 12, client_id="app", settled=True)
    report = hear(store, windows(exchange, known), resumed_at=NOW)
    assert report.checks["kip35/version-out-of-range"] == {"undecided": 1}
    assert report.findings == []
    stored = unpack_bucket(store.value[0] if store.value else None)
    assert stored.resumed_at == NOW
    exchange.negotiate(client_id="app")
    exchange.request("Metadata", 12, client_id="app", settled=True)
    report = hear(store, windows(exchange, known + 1), resumed_at=NOW)
    assert report.checks["kip35/version-out-of-range"] == {"conforms": 1}
