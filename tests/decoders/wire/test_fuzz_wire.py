"""Mutated packets and segments: no exception, both trackers agree, memory does not grow.

Coverage guidance helps little here, because state depends on sequences of packets: mutations of a real
capture and of a conversation reach more states. Seeds are fixed, so failures are reproducible.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from itertools import pairwise
from random import Random

import pytest

from decoders.frame.columnar.block_reading import read_block
from decoders.frame.record import Record
from decoders.wire.segment import Packet
from decoders.wire.tracker import Tracker
from tests.decoders.frame.columnar.batches import block
from tests.decoders.wire.columnar.equality import batches_of, columnar, placed
from tests.decoders.wire.conversation import balances, new_tracker
from tests.decoders.wire.mutations import mutated, originals
from tests.examples import share_of

SECONDS, LONG = 60, 3600
MAX_HELD, MAX_CONNECTIONS = 64 * 1024, 8
BOUNDS = {"max_held": MAX_HELD, "max_connections": MAX_CONNECTIONS}
MAX_GROWTH = 64 * 1024
"""Kilobytes by which the process may grow after it has warmed up."""


def track(tracker: Tracker, packets: list[Packet]) -> Iterator[Record]:
    for packet in packets:
        yield from tracker.feed(packet)
        assert_bounded(tracker)
    assert tracker.ledger.packets.total() == len(packets)
    yield from tracker.finish()
    assert (tracker.ledger.pending, tracker.held) == (0, 0)


def assert_bounded(tracker: Tracker) -> None:
    assert balances(tracker.ledger)
    assert len(tracker.connections) <= MAX_CONNECTIONS
    assert tracker.held == sum(connection.held for connection in tracker.connections) <= MAX_HELD
    assert tracker.ledger.pending == sum(each.ledger.pending for each in tracker.connections)


def examine(random: Random, packets: list[Packet]) -> None:
    packets, ports = placed(mutated(random, packets)), random.choice([(), (9092,)])
    tracker = new_tracker(ports=ports, **BOUNDS)
    records = list(track(tracker, packets))
    cuts = random.sample(range(len(packets) + 1), random.randrange(min(4, len(packets))))
    columnar_records, (ledger, *_) = columnar(batches_of(packets, cuts), ports=ports, **BOUNDS)
    assert columnar_records == records
    assert ledger == tracker.ledger
    assert all(earlier.sequence < later.sequence for earlier, later in pairwise(records))
    assert not records or list(read_block(block(records))) == records


def fuzz(seconds: float) -> int:
    """Examine mutations for some seconds, and return their number."""
    begun, seed, warm, sources = time.monotonic(), 0, 0, originals()
    while (passed := time.monotonic() - begun) < seconds:
        random = Random(seed)
        try:
            examine(random, random.choice(sources))
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
        seed += 1
        if passed < seconds / 4:
            warm = _peak()
    assert _peak() - warm < MAX_GROWTH
    return seed


def _peak() -> int:
    """Return the peak memory of the process, in kilobytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@pytest.mark.slow
@pytest.mark.timeout(SECONDS * 3)
def test_mutations_of_a_minute_find_nothing() -> None:
    """Fifteen seconds of them in `make test`."""
    assert fuzz(share_of(SECONDS)) > 25


@pytest.mark.long
@pytest.mark.timeout(LONG * 2)
def test_mutations_of_an_hour_find_nothing() -> None:
    assert fuzz(LONG) > 10_000
