"""The columnar cache judges windows of steady traffic, and nothing that the judge must see.

`test_judgement_cache.py` holds it equal to the judgement cache and to the rules.
"""

from __future__ import annotations

import itertools

import pytest

from expectations.conversation.window import Window
from expectations.judging.judge import Judge
from streaming.judging import columnar_cache
from streaming.judging.bucket_step import BucketStep
from streaming.judging.report import Report
from streaming.state.bucket import Bucket
from tests.streaming.judging.test_bucket_step import on, windows
from tests.streaming.judging.test_judgement_cache import (
    NAMES,
    ORDINARY,
    Names,
    comparable,
    exchange_of,
    numbered,
)
from tests.streaming.judging.travelling import travelled, travelled_columns
from tests.streaming.state.bucket_store import BucketStore

CONNECTIONS = 3
STEADY = ["fetch", "response", "fetch", "commit"]


def steady_batches(activities: list[str], size: int = 4) -> list[list[Window]]:
    """`size` frames of each connection in a batch, after the openings; each has IDs of its own."""
    exchanges = []
    for number in range(CONNECTIONS):
        names = Names((ORDINARY[number], "B"), [f"app {number}"], [bytes([number + 65]) * 16])
        exchanges.append(numbered(exchange_of(activities, False, names), number, CONNECTIONS))
    begin = len(exchange_of([], mid_stream=False).records)
    bounds = [0, *range(begin, len(exchanges[0].records), size), len(exchanges[0].records)]
    return [
        [
            window
            for number, exchange in enumerate(exchanges)
            for window in on(bytes([number + 1]), windows(exchange, first, last))
        ]
        for first, last in itertools.pairwise(bounds)
    ]


class Run:
    """Steps of one bucket, which is stored after each, as columns and as objects."""

    def __init__(self) -> None:
        self.columnar, self.plain = (BucketStep(Judge(NAMES), NAMES, counts_usage=True) for _ in range(2))
        self.stores = BucketStore(Bucket()), BucketStore(Bucket())

    def step(self, *parts: list[Window]) -> tuple[int, Report]:
        """Step both, which must be equal. Returns how many windows the columnar cache judged."""
        before = self.columnar.columnar.hits
        buckets = [store.load() for store in self.stores]
        report = self.columnar.process_columns(0, buckets[0], [*map(travelled_columns, parts)])
        expected = self.plain.process(0, buckets[1], travelled(itertools.chain(*parts)))
        assert comparable(report) == comparable(expected)
        for store, bucket in zip(self.stores, buckets, strict=True):
            store.save(bucket)
        assert self.stores[0].load() == self.stores[1].load()
        return self.columnar.columnar.hits - before, report


def test_connections_that_repeat_themselves_are_judged_together() -> None:
    """Transitions are learned where all connections say something for the first time in a known state."""
    run = Run()
    hits = [run.step(batch)[0] for batch in steady_batches(STEADY * 4)]
    assert hits[:2] == [0, 0]
    assert hits[-4:] == [CONNECTIONS] * 4


def test_no_content_is_read_for_them() -> None:
    run = Run()
    *first, last = steady_batches(STEADY * 4)
    for batch in first:
        run.step(batch)
    bucket, reads = run.stores[0].load(), run.stores[0].contents_reads
    run.columnar.process_columns(0, bucket, [travelled_columns(last)])
    assert run.stores[0].save(bucket).contents is None
    assert run.stores[0].contents_reads == reads


def test_two_windows_of_a_connection_are_left_to_the_judgement_cache() -> None:
    run = Run()
    *first, before_last, last = steady_batches(["fetch", "commit"] * 8)
    for batch in first:
        run.step(batch)
    assert run.step(before_last, last[:1])[0] == CONNECTIONS - 1


@pytest.mark.parametrize("activity", ["learn ID", "fetch as other", "look up with other ID", "gap"])
def test_what_is_new_is_left_to_the_judge(activity: str) -> None:
    run = Run()
    *steady, last = steady_batches([*STEADY * 4, "fetch", activity])
    for batch in steady:
        run.step(batch)
    assert run.step(last)[0] < CONNECTIONS


def test_requests_in_flight_are_moved() -> None:
    """Windows of three frames end between a request and its response, in turns."""
    run = Run()
    in_flight = list[int]()
    for batch in steady_batches(["fetch"] * 24, 3):
        hits, _ = run.step(batch)
        states = run.stores[0].load().connections.values()
        in_flight.append(sum(sum(state.conversation.progress.in_flight.counts.values()) for state in states))
    assert hits == CONNECTIONS
    assert in_flight[-2:] in ([0, CONNECTIONS], [CONNECTIONS, 0])


@pytest.mark.parametrize("limit", ["CODES", "TRANSITIONS", "WORDS"])
def test_it_is_bounded(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """When it is full it is cleared, and learns anew."""
    monkeypatch.setattr(columnar_cache, limit, {"CODES": 2, "TRANSITIONS": 2, "WORDS": 220}[limit])
    run = Run()
    for batch in steady_batches(STEADY * 4):
        run.step(batch)
    assert run.columnar.columnar.clears > 0
