"""Kafka conversations over TLS: their packets, and what both trackers make of them with a key log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any
from unittest.mock import patch

from hypothesis import strategies as st

from decoders.frame.record import Direction, Kind, Record
from decoders.tls.key_log import KeyLog
from decoders.tls.session import Side
from decoders.wire.columnar import tls_ahead
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.ledger import Ledger, SkipReason
from decoders.wire.segment import Packet
from tests.decoders.tls.writer import SUITES, TlsWriter
from tests.decoders.wire.columnar.equality import packets_between, placed
from tests.decoders.wire.conversation import (
    EVENTS,
    SECOND,
    Event,
    assert_balanced,
    new_columnar_tracker,
    new_tracker,
)

DIRECTIONS = {Side.CLIENT: Direction.TO_BROKER, Side.SERVER: Direction.TO_CLIENT}
SIDES = {direction: side for side, direction in DIRECTIONS.items()}
MILLISECOND = SECOND // 1000
suites = st.sampled_from(SUITES)
cuts = st.lists(st.integers(0, 400), max_size=4)
NAMES = [f"{suite:#06x}" for _, suite in SUITES]
PLAIN = sum(len(data) for _, data in EVENTS)
"""The bytes of EVENTS without TLS."""


def encrypted(
    events: Iterable[Event], writer: TlsWriter, size: int = 1 << 14, padding: int = 0, updates: bool = False
) -> list[Event]:
    """Carry events in records of at most `size` bytes, after the handshake."""
    wire = [(DIRECTIONS[side], data) for side, data in writer.handshake()]
    for direction, data in events:
        side = SIDES[direction]
        wire.append((direction, writer.data(side, data, size, padding)))
        if updates:
            wire[-1] = direction, wire[-1][1] + writer.key_update(side)
    return wire


def packets(wire: Iterable[Event], **options: Any) -> list[Packet]:
    return placed(packets_between(wire, **{"interval": MILLISECOND, **options}))


def both(
    sent: Sequence[Packet],
    keys: str,
    cuts: Sequence[int] = (),
    known_from: int = 0,
    *,
    window: int = 5,
    **options: Any,
) -> tuple[list[Record], Ledger]:
    """Return what the scalar tracker makes of packets, and assert that the columnar one makes the same.

    The key log gets its text before packet number `known_from`, which begins a batch. The columnar tracker
    decrypts at least `window` packets ahead.
    """
    places = sorted({0, known_from, len(sent), *(cut % (len(sent) + 1) for cut in cuts)})
    batches = [(begin, sent[begin:end]) for begin, end in pairwise(places)]
    key_log, records = KeyLog(), []
    scalar = new_tracker(key_log=key_log, **options)
    for begin, batch in batches:
        if begin == known_from:
            key_log.add(keys)
        records += [record for packet in batch for record in scalar.feed(packet)]
    records += scalar.finish()
    key_log = KeyLog()
    columnar = new_columnar_tracker(**{"key_log": key_log, **options})
    columnar_records: list[Record] = []
    with patch.multiple(tls_ahead, MIN_WINDOW=window, MAX_WINDOW=4 * window):
        for begin, batch in batches:
            if begin == known_from:
                key_log.add(keys)
            columnar_records += columnar.feed(PacketBatch.of(batch)).records()
        columnar_records += columnar.finish().records()
    assert columnar_records == records
    assert (columnar.ledger, columnar.port_ledgers) == (scalar.ledger, scalar.port_ledgers)
    assert_balanced(scalar.ledger)
    return records, scalar.ledger


def plainly(events: Sequence[Event], **options: Any) -> list[Record]:
    """Return the records of the same conversation without TLS."""
    tracker = new_tracker()
    sent = packets(events, **options)
    return [record for packet in sent for record in tracker.feed(packet)] + tracker.finish()


def said(records: Iterable[Record]) -> list[tuple[Any, ...]]:
    """What frames say, and what is known of each, without when and where it was captured."""
    return [
        (each.direction, each.kind, each.frame, each.true_length, each.pairing, each.flags)
        for each in records
        if each.kind not in (Kind.OPENED, Kind.CLOSED)
    ]


def overhead(ledger: Ledger) -> int:
    return ledger.skipped[SkipReason.TLS]
