"""Compares the columnar tracker with the scalar one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from random import Random
from typing import Any

from decoders.frame.record import Record
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.ledger import Ledger
from decoders.wire.segment import Packet, SocketAddress
from tests.decoders.wire.conversation import (
    CLIENT,
    SERVER,
    Event,
    feed_all,
    new_columnar_tracker,
    new_tracker,
    packets_of,
)

Ledgers = tuple[Ledger, Mapping[int, Ledger], Mapping[str, int]]
"""That of all connections, those of the watched ports, and how many connections were evicted."""


def packets_between(
    events: Iterable[Event], client: SocketAddress = CLIENT, server: SocketAddress = SERVER, **options: Any
) -> list[Packet]:
    """Carry events between two sockets as `packets_of` does; the receiver acknowledges each one."""
    return packets_of(events, client, server, acknowledges=True, **options)


def interleaved(conversations: Sequence[Sequence[Packet]], random: Random) -> list[Packet]:
    """Merge conversations at random, each in its own order, and number the packets' positions."""
    turns = [number for number, packets in enumerate(conversations) for _ in packets]
    random.shuffle(turns)
    iterators = [iter(packets) for packets in conversations]
    return placed(next(iterators[turn]) for turn in turns)


def placed(packets: Iterable[Packet]) -> list[Packet]:
    """Return packets with different positions."""
    return [packet._replace(position=24 + 100 * index) for index, packet in enumerate(packets)]


def batches_of(packets: Sequence[Packet], cuts: Iterable[int]) -> list[Sequence[Packet]]:
    """Cut packets into batches at the indices `cuts`."""
    places = [0, *sorted(cut % (len(packets) + 1) for cut in cuts), len(packets)]
    return [packets[start:end] for start, end in pairwise(places)]


def scalar(packets: Sequence[Packet], **options: Any) -> tuple[list[Record], Ledgers]:
    tracker = new_tracker(**options)
    return feed_all(tracker, packets) + tracker.finish(), (
        tracker.ledger,
        tracker.port_ledgers,
        tracker.evicted,
    )


def columnar(batches: Iterable[Sequence[Packet]], **options: Any) -> tuple[list[Record], Ledgers]:
    tracker = new_columnar_tracker(**options)
    records = [record for packets in batches for record in tracker.feed(PacketBatch.of(packets)).records()]
    return records + list(tracker.finish().records()), (tracker.ledger, tracker.port_ledgers, tracker.evicted)


def assert_equal(packets: Sequence[Packet], cuts: Iterable[int] = (), **options: Any) -> list[Record]:
    """Assert that both trackers make the same records and the same ledgers, and return the records."""
    records, ledgers = scalar(packets, **options)
    columnar_records, columnar_ledgers = columnar(batches_of(packets, cuts), **options)
    assert columnar_records == records
    assert columnar_ledgers == ledgers
    return records
