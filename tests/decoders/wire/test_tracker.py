"""Packets in, records out: the records of a connection, and which side is the broker."""

from __future__ import annotations

import pytest

from decoders.frame.record import Closing, Flag, Kind
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
    TO_CLIENT,
    api_versions,
    api_versions_response,
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

    def test_half_close_does_not_end_the_other_direction(self) -> None:
        connection = SyntheticConnection(CLIENT, SERVER)
        packets = connection.opened(0) + connection.sent(1, TO_BROKER, prefixed(metadata(1)))
        packets += connection.finished(2, TO_BROKER) + connection.sent(
            3, TO_CLIENT, prefixed(metadata_response(1))
        )
        packets += connection.finished(4, TO_CLIENT)
        assert kinds(records_of(packets)) == [Kind.OPENED, Kind.REQUEST, Kind.RESPONSE, Kind.CLOSED]

    def test_a_reset_closes_and_has_the_direction_of_its_sender(self) -> None:
        connection = SyntheticConnection(CLIENT, SERVER)
        records = records_of(connection.opened(0) + connection.reset(1, TO_CLIENT))
        assert (records[-1].closing, records[-1].direction) == (Closing.RST, TO_CLIENT)


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
