"""Forged packets: those of a conversation with other fields, and what both trackers make of them."""

from __future__ import annotations

from collections.abc import Iterable

from decoders.frame.record import Record
from decoders.wire.segment import Packet, Segment, TcpFlag, read_segment
from decoders.wire.synthesis import packet_of
from decoders.wire.tracker import Tracker
from tests.decoders.wire.columnar.equality import assert_equal, placed
from tests.decoders.wire.conversation import (
    HANDSHAKE,
    exchanges,
    feed_all,
    new_tracker,
    packets_of,
)

ACK, RST, SYN, FIN = TcpFlag.ACK, TcpFlag.RST, TcpFlag.SYN, TcpFlag.FIN
PACKETS = packets_of(exchanges(4), sequences=(5_000, 9_000))
AT = HANDSHAKE + 4
"""The place of the client's third request: all before it has its response."""
FAR = 1 << 30


def like(
    packet: Packet,
    *,
    flags: int,
    sequence: int = 0,
    acknowledgment: int = 0,
    payload: bytes = b"",
    earlier: int = 0,
) -> Packet:
    """Return a packet with other fields of its segment; numbers are relative to it."""
    segment = read_segment(packet)
    assert isinstance(segment, Segment)
    return packet_of(
        segment._replace(
            sequence=segment.sequence + sequence,
            acknowledgment=segment.acknowledgment + acknowledgment,
            flags=flags,
            payload=payload,
            captured_at=segment.captured_at - earlier,
        )
    )


def payload_of(packet: Packet) -> bytes:
    segment = read_segment(packet)
    assert isinstance(segment, Segment)
    return segment.payload


def said(records: Iterable[Record]) -> list[tuple[object, ...]]:
    return [(record.kind, record.frame, record.pairing, record.closing) for record in records]


def followed(packets: list[Packet]) -> tuple[list[Record], Tracker]:
    """Follow packets to their end, and assert that both trackers do the same."""
    packets = placed(packets)
    tracker = new_tracker()
    records = feed_all(tracker, packets) + tracker.finish()
    assert_equal(packets)
    assert_equal(packets, range(len(packets)))
    return records, tracker


def inserted(*forged: Packet, at: int = AT) -> tuple[list[Record], Tracker]:
    """Follow the conversation with forged packets in it."""
    return followed([*PACKETS[:at], *forged, *PACKETS[at:]])


FROM_CLIENT, FROM_BROKER = PACKETS[AT], PACKETS[AT + 1]
