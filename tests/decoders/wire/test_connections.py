"""TCP connections: reused ports, probes, limits of number and memory."""

from __future__ import annotations

from decoders.frame.record import Closing, Flag, Kind
from decoders.retention import KEPT_FOR
from decoders.wire.closed_connections import TIME_WAIT
from decoders.wire.ledger import SkipReason
from decoders.wire.packet import Packet
from decoders.wire.segment import SocketAddress
from decoders.wire.synthesis import SyntheticConnection
from tests.decoders.wire.conversation import (
    CLIENT,
    HANDSHAKE,
    SECOND,
    SERVER,
    TO_BROKER,
    balances,
    exchanges,
    feed_all,
    kinds,
    metadata,
    new_tracker,
    of_kind,
    packets_of,
    prefixed,
    records_of,
)


class TestReuse:
    def test_late_segments_of_a_closed_connection_open_no_new_one(self) -> None:
        packets = packets_of(exchanges(1))
        tracker = new_tracker()
        feed_all(tracker, packets)
        assert feed_all(tracker, packets) == []
        assert tracker.ledger.skipped[SkipReason.AFTER_CLOSE] == tracker.ledger.framed

    def test_a_new_handshake_between_the_same_sockets_is_a_new_connection(self) -> None:
        records = records_of(packets_of(exchanges(0)) + packets_of(exchanges(0), sequences=(900, 900)))
        assert kinds(records).count(Kind.OPENED) == 2
        assert len({record.connection for record in records}) == 2

    def test_a_new_handshake_replaces_a_connection_whose_end_was_not_captured(self) -> None:
        first = packets_of(exchanges(0), close=False)
        records = records_of(first + packets_of(exchanges(0), sequences=(900, 900)))
        assert kinds(records)[3:5] == [Kind.CLOSED, Kind.OPENED]
        assert records[3].closing is Closing.REPLACED

    def test_a_repeated_handshake_is_the_same_connection(self) -> None:
        packets = packets_of(exchanges(0))
        assert kinds(records_of(packets[:1] * 2 + packets[1:2] * 2 + packets[2:])) == [
            Kind.OPENED,
            Kind.REQUEST,
            Kind.RESPONSE,
            Kind.CLOSED,
        ]

    def test_after_time_wait_the_same_sockets_may_be_joined_mid_stream(self) -> None:
        late = packets_of(exchanges(1), start=TIME_WAIT + 60 * SECOND, sequences=(900, 900))[HANDSHAKE:]
        records = records_of(packets_of(exchanges(0)) + late)
        assert [record.flags for record in of_kind(records, Kind.OPENED)] == [Flag.NONE, Flag.MID_STREAM]


class TestLimits:
    def opening(self, port: int, at: int) -> list[Packet]:
        return SyntheticConnection(SocketAddress(CLIENT.address, port), SERVER).opened(at)

    def test_beyond_the_limit_the_longest_silent_connection_is_evicted(self) -> None:
        tracker = new_tracker(max_connections=2)
        packets = [packet for port in (1, 2, 1, 3) for packet in self.opening(port, port)]
        records = feed_all(tracker, packets)
        (evicted,) = of_kind(records, Kind.CLOSED)
        assert (evicted.client, evicted.closing) == ("10.0.0.1:2", Closing.EVICTED)
        assert len(tracker.connections) == 2

    def test_beyond_the_memory_limit_those_that_hold_most_are_evicted_until_half_is_free(self) -> None:
        tracker = new_tracker(max_held=10_000)
        begun = (20_000).to_bytes(4) + metadata(1)
        records = []
        for port, size in ((1, 4_000), (2, 100), (3, 6_000), (4, 500)):
            connection = SyntheticConnection(SocketAddress(CLIENT.address, port), SERVER)
            packets = connection.opened(port) + connection.sent(port, TO_BROKER, begun + bytes(size))
            records += feed_all(tracker, packets)
        assert [record.client for record in of_kind(records, Kind.CLOSED)] == ["10.0.0.1:3"]
        assert {record.closing for record in of_kind(records, Kind.CLOSED)} == {Closing.EVICTED}
        assert tracker.held < 5_000
        assert tracker.ledger.skipped == {SkipReason.UNFINISHED: len(begun) + 6_000}
        assert balances(tracker.ledger)

    def test_later_segments_join_an_evicted_connection_mid_stream(self) -> None:
        events = [*exchanges(1), (TO_BROKER, (9_000).to_bytes(4) + bytes(6_000))]
        packets = packets_of([*events, (TO_BROKER, bytes(3_000)), *exchanges(2)[2:]])
        records = records_of(packets, max_held=5_000)
        assert [record.flags for record in of_kind(records, Kind.OPENED)] == [Flag.NONE, Flag.MID_STREAM]
        assert [record.frame for record in of_kind(records, Kind.REQUEST)][-1] == metadata(2)

    def test_held_chunks_count_as_more_than_their_payload(self) -> None:
        tracker = new_tracker()
        packets = packets_of(exchanges(1), segment=1)[HANDSHAKE + 1 : HANDSHAKE + 30]
        feed_all(tracker, packets_of([])[:HANDSHAKE] + packets)
        assert tracker.held > 100 * len(packets)

    def test_the_ledgers_of_connections_add_up(self) -> None:
        tracker = new_tracker()
        opened = [SyntheticConnection(SocketAddress(CLIENT.address, port), SERVER) for port in (1, 2)]
        for connection in opened:
            feed_all(tracker, connection.opened(0) + connection.sent(1, TO_BROKER, prefixed(metadata(1)) * 3))
        feed_all(tracker, opened[0].sent(2, TO_BROKER, prefixed(metadata(2))[:9]))
        ledgers = [connection.ledger for connection in tracker.connections]
        assert [ledger.framed for ledger in ledgers] == [3 * len(prefixed(metadata(1)))] * 2
        assert [ledger.pending for ledger in ledgers] == [0, 9]
        assert all(balances(ledger) for ledger in ledgers)
        assert sum(ledger.captured for ledger in ledgers) == tracker.ledger.captured

    def test_a_silent_connection_is_closed_as_idle(self) -> None:
        records = feed_all(new_tracker(), self.opening(1, 0) + self.opening(2, KEPT_FOR + 1))
        assert [(record.client, record.closing) for record in of_kind(records, Kind.CLOSED)] == [
            ("10.0.0.1:1", Closing.IDLE)
        ]


def sequence_moved(packet: Packet, distance: int, payload: bytes) -> Packet:
    """Return a segment of the same connection, `distance` bytes further, with another payload."""
    header = 54
    number = (int.from_bytes(packet.data[38:42]) + distance) % (1 << 32)
    length = header - 14 + len(payload)
    data = packet.data[:16] + length.to_bytes(2) + packet.data[18:38] + number.to_bytes(4)
    data += packet.data[42:header] + payload
    return packet._replace(data=data, original_length=len(data))


class TestProbes:
    """Segments that are sent to provoke an acknowledgment, before the client's second request."""

    PACKETS = packets_of(exchanges(2))
    AT = HANDSHAKE + 2

    def skipped(self, distance: int, payload: bytes) -> dict[SkipReason, int]:
        """Return the bytes skipped of a probe that changes no record."""
        probe = sequence_moved(self.PACKETS[self.AT], distance, payload)
        tracker = new_tracker()
        records = feed_all(tracker, [*self.PACKETS[: self.AT], probe, *self.PACKETS[self.AT :]])
        recorded = [(record.kind, record.frame, record.pairing) for record in records]
        assert recorded == [
            (record.kind, record.frame, record.pairing) for record in records_of(self.PACKETS)
        ]
        assert tracker.ledger.lost == 0
        return dict(tracker.ledger.skipped)

    def test_a_keep_alive_changes_nothing(self) -> None:
        assert self.skipped(-1, b"") == {}

    def test_the_byte_of_a_keep_alive_may_have_any_value(self) -> None:
        assert self.skipped(-1, b"\xff") == {SkipReason.DUPLICATE: 1}

    def test_a_zero_window_probe_carries_the_next_byte_once(self) -> None:
        """The receiver's window is full, so the byte is sent again with those behind it."""
        assert self.skipped(0, prefixed(metadata(1))[:1]) == {SkipReason.DUPLICATE: 1}
