"""What TLS connections hold is counted as what it takes, so that no stranger fills a feeder's memory."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.frame.record import Closing, Kind
from decoders.tls.key_log import KeyLog
from decoders.tls.outcome import TlsOutcome
from decoders.wire.chunk import PIECE_COST
from decoders.wire.segment import Packet
from tests.decoders.tls.writer import SUITES, TlsWriter
from tests.decoders.wire.conversation import (
    EVENTS,
    TO_BROKER,
    assert_balanced,
    exchanges,
    new_tracker,
    of_kind,
)
from tests.decoders.wire.encrypted import both, encrypted, packets, plainly, said
from tests.examples import examples

SENT = 2_000
ANNOUNCED = b"\x03\x03\x40\x00"
"""A record of 16 KiB, behind its content type."""


@pytest.mark.parametrize("is_read", [False, True], ids=["handshake", "read"])
def test_a_record_that_comes_byte_by_byte_counts_as_what_it_takes(is_read: bool) -> None:
    """Each byte is a piece, with the time and place of its segment. Who holds most is evicted."""
    writer = TlsWriter(*SUITES[3])
    wire = encrypted(exchanges(2), writer) if is_read else encrypted([], writer)[:1]
    content_type = b"\x17" if is_read else b"\x16"
    wire.append((TO_BROKER, content_type + ANNOUNCED + bytes(SENT)))
    sent = packets(wire, segment=1, close=False)
    key_log = KeyLog()
    key_log.add(writer.key_log)
    tracker = new_tracker(key_log=key_log)
    for packet in sent:
        tracker.feed(packet)
    assert SENT * PIECE_COST < tracker.held < 2 * SENT * PIECE_COST
    records, _ = both(sent, writer.key_log, max_held=SENT * PIECE_COST)
    assert [each.closing for each in of_kind(records, Kind.CLOSED)] == [Closing.EVICTED]


@examples(15)
@given(st.sampled_from(SUITES), st.integers(8, 60), st.integers(100, 900), st.integers(2_000, 40_000))
def test_both_trackers_count_alike(suite: tuple[int, int], segment: int, size: int, most: int) -> None:
    """They evict the same connections, at the same packets."""
    writer = TlsWriter(*suite)
    both(packets(encrypted(EVENTS, writer, size), segment=segment), writer.key_log, max_held=most)


def test_ordinary_segments_are_no_reason_to_evict() -> None:
    writer = TlsWriter(*SUITES[3])
    records, ledger = both(
        packets(encrypted(EVENTS, writer), segment=1_448), writer.key_log, max_held=1 << 17
    )
    assert said(records) == said(plainly(EVENTS))
    assert ledger.tls == {TlsOutcome.READ: 1}


def behind_a_loss(garbage: list[bytes]) -> tuple[list[Packet], str]:
    """A connection of which a packet is lost, and whose client then sends what is no TLS."""
    writer = TlsWriter(*SUITES[3])
    wire = encrypted(exchanges(2), writer)
    lost = b"lost" * 100
    sent = packets([*wire, (TO_BROKER, lost), *((TO_BROKER, each) for each in garbage)], close=False)
    return [packet for packet in sent if lost not in packet.data], writer.key_log


def test_bytes_that_are_no_record_are_not_kept() -> None:
    """Behind lost bytes a record is looked for, however many come that begin none."""
    sent, keys = behind_a_loss([bytes(1_000)] * 2_000)
    key_log = KeyLog()
    key_log.add(keys)
    tracker = new_tracker(key_log=key_log)
    begun = 100
    for packet in sent[:begun]:
        tracker.feed(packet)
    tracemalloc.start()
    try:
        for packet in sent[begun:]:
            tracker.feed(packet)
        grown = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert grown < 200_000
    tracker.finish()
    assert_balanced(tracker.ledger)
