"""Packets in, records out: records, orientation, reused ports, probes, limits of number and memory."""

from __future__ import annotations

import pytest

from decoders.frame.record import Closing, Flag, Kind
from decoders.retention import KEPT_FOR
from decoders.wire.admission import TIME_WAIT
from decoders.wire.ledger import SkipReason
from decoders.wire.segment import Packet, SocketAddress
from decoders.wire.synthesis import SyntheticConnection
from tests.decoders.wire.columnar.forging import ACK, like
from tests.decoders.wire.conversation import (
    CLIENT,
    HANDSHAKE,
    SECOND,
    SERVER,
    TO_BROKER,
    TO_CLIENT,
    api_versions,
    api_versions_response,
    balances,
    exchanges,
    feed_all,
    kinds,
    metadata,
    metadata_response,
    new_tracker,
    of_kind,
    packets_of,
    prefixed,
    records_of,
    to_broker,
)


class TestRecords:
    def test_a_conversation_from_its_first_packet_to_its_last(self) -> None:
        records = records_of(packets_of(exchanges(1)))
        opened, versions, _, asked_metadata, told_metadata, closed = records
        assert kinds(records) == [
            Kind.OPENED,
            Kind.REQUEST,
            Kind.RESPONSE,
            Kind.REQUEST,
            Kind.RESPONSE,
            Kind.CLOSED,
        ]
        assert [record.sequence for record in records] == [1, 2, 3, 4, 5, 6]
        assert (opened.client, opened.server, opened.flags) == ("10.0.0.1:40000", "10.0.0.2:9092", Flag.NONE)
        assert (versions.frame, versions.captured_at) == (api_versions(0), SECOND)
        assert (asked_metadata.direction, told_metadata.direction) == (TO_BROKER, TO_CLIENT)
        assert (told_metadata.frame, told_metadata.true_length) == (
            metadata_response(1),
            len(metadata_response(1)),
        )
        paired = (
            told_metadata.paired_sequence,
            told_metadata.paired_api_key,
            told_metadata.paired_api_version,
        )
        assert paired == (4, 3, 9)
        assert (closed.closing, closed.direction) == (Closing.FIN, TO_BROKER)

    def test_the_connections_id_is_that_of_its_opening(self) -> None:
        first = records_of(packets_of(exchanges(1)), cluster="here", feeder="f")
        assert len({record.connection for record in first}) == 1
        assert len(first[0].connection) == 16
        assert {(record.cluster, record.feeder, record.run) for record in first} == {("here", "f", 7)}
        again = records_of(packets_of(exchanges(1)), cluster="here")
        assert again[0].connection == first[0].connection
        others = [
            records_of(packets_of(exchanges(1)), **other) for other in ({"run": 8}, {"cluster": "there"})
        ]
        assert len({first[0].connection, *(records[0].connection for records in others)}) == 3

    def test_sequences_are_shared_by_all_connections(self) -> None:
        other = SyntheticConnection(SocketAddress(CLIENT.address, 40_001), SERVER)
        tracker = new_tracker()
        records = feed_all(tracker, packets_of(exchanges(0)) + other.opened(0))
        assert [record.sequence for record in records] == [1, 2, 3, 4, 5]
        assert len({record.connection for record in records}) == 2

    def test_a_frame_has_the_position_of_its_first_segment(self) -> None:
        packets = [
            packet._replace(position=index)
            for index, packet in enumerate(packets_of(exchanges(0), segment=10))
        ]
        versions = of_kind(records_of(packets), Kind.REQUEST)[0]
        assert versions.position == HANDSHAKE

    def test_the_end_of_the_source_closes_nothing(self) -> None:
        tracker = new_tracker()
        feed_all(tracker, packets_of(exchanges(1), close=False))
        assert len(tracker.connections) == 1
        assert tracker.finish() == []

    def test_a_port_probe_opens_and_closes(self) -> None:
        assert kinds(records_of(packets_of([]))) == [Kind.OPENED, Kind.CLOSED]


class TestOrientation:
    @pytest.mark.parametrize("ports", [{9092}, set()], ids=["by port", "by SYN"])
    def test_the_server_is_recognised(self, ports: set[int]) -> None:
        assert records_of(packets_of(exchanges(0)), ports=ports)[0].server == "10.0.0.2:9092"

    def test_without_ports_a_request_shows_the_server_of_a_connection_joined_mid_stream(self) -> None:
        packets = packets_of(exchanges(2))[HANDSHAKE + 1 :]
        tracker = new_tracker(ports=())
        records = feed_all(tracker, packets)
        assert (records[0].server, records[0].flags) == ("10.0.0.2:9092", Flag.MID_STREAM)
        assert tracker.ledger.skipped[SkipReason.UNORIENTED] == len(prefixed(api_versions_response(0)))

    def test_a_response_that_reads_like_an_empty_produce_does_not_orient(self) -> None:
        """A short response to request 4 does, in real traffic."""
        response = bytes([0, 0, 0, 4]) + bytes(18)
        packets = packets_of([(TO_CLIENT, prefixed(response)), *to_broker(metadata(1))])[HANDSHAKE:]
        records = records_of(packets, ports=())
        assert {record.server for record in records} == {"10.0.0.2:9092"}
        assert [record.frame for record in of_kind(records, Kind.REQUEST)] == [metadata(1)]

    def test_bytes_of_other_ports_are_counted(self) -> None:
        tracker = new_tracker(ports={9999})
        assert feed_all(tracker, packets_of(exchanges(1))) == []
        assert tracker.ledger.skipped == {SkipReason.OTHER_PORT: tracker.ledger.captured}


def test_packets_without_a_segment_are_counted_by_reason() -> None:
    tracker = new_tracker()
    assert tracker.feed(Packet(0, 1, bytes(12) + b"\x08\x06" + bytes(28), 42)) == []
    assert tracker.ledger.packets == {"not-ip": 1}


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


class TestProbes:
    """Segments that are sent to provoke an acknowledgment, before the client's second request."""

    PACKETS = packets_of(exchanges(2))
    AT = HANDSHAKE + 2

    def skipped(self, distance: int, payload: bytes) -> dict[SkipReason, int]:
        """Return the bytes skipped of a probe that changes no record."""
        probe = like(self.PACKETS[self.AT], flags=ACK, sequence=distance, payload=payload)
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
