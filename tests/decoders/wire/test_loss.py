"""Lost bytes and other protocols are recorded and counted, and lead to no false pairing."""

from __future__ import annotations

import msgspec
import pytest

from decoders.frame.record import Direction, Flag, Kind, Pairing
from decoders.wire.frame_detector import MAX_RESUMED_FRAME, OtherProtocol
from decoders.wire.ledger import SkipReason
from tests.decoders.wire.conversation import (
    HANDSHAKE,
    TO_BROKER,
    TO_CLIENT,
    exchanges,
    feed_all,
    kinds,
    metadata,
    metadata_response,
    new_tracker,
    of_kind,
    packets_of,
    pairings,
    prefixed,
    produce,
    records_of,
    to_broker,
    to_client,
)


class TestLoss:
    def test_a_lost_request_is_a_gap_before_its_response_which_is_not_unowed(self) -> None:
        packets = packets_of(exchanges(3))
        lost = HANDSHAKE + 2
        records = records_of(packets[:lost] + packets[lost + 1 :])
        assert kinds(records)[3:6] == [Kind.GAP, Kind.RESPONSE, Kind.REQUEST]
        assert (records[3].direction, records[3].true_length) == (TO_BROKER, len(prefixed(metadata(1))))
        assert pairings(records) == [Pairing.MATCHED, Pairing.UNKNOWN, Pairing.MATCHED, Pairing.MATCHED]

    def test_a_lost_response_is_a_gap_and_the_next_response_is_paired(self) -> None:
        packets = packets_of(exchanges(3))
        lost = HANDSHAKE + 3
        records = records_of(packets[:lost] + packets[lost + 1 :])
        assert (records[4].kind, records[4].direction) == (Kind.GAP, TO_CLIENT)
        assert pairings(records) == [Pairing.MATCHED] * 3

    def test_a_connection_joined_mid_stream_has_records_from_its_first_certain_frame(self) -> None:
        records = records_of(packets_of(exchanges(3))[HANDSHAKE + 3 :])
        assert records[0].flags is Flag.MID_STREAM
        assert [record.frame for record in of_kind(records, Kind.REQUEST)] == [metadata(2), metadata(3)]
        assert pairings(records) == [Pairing.MATCHED, Pairing.MATCHED]

    def test_a_connection_that_begins_with_a_syn_ack_is_complete(self) -> None:
        records = records_of(packets_of(exchanges(1))[1:])
        assert records[0].flags is Flag.NONE
        assert len(of_kind(records, Kind.REQUEST)) == 2
        assert Kind.GAP not in kinds(records)

    def test_without_the_syn_ack_responses_may_have_been_missed(self) -> None:
        packets = packets_of(exchanges(1))
        records = records_of(packets[:1] + packets[2:])
        assert (records[1].kind, records[1].direction) == (Kind.GAP, TO_CLIENT)
        assert pairings(records) == [Pairing.MATCHED, Pairing.MATCHED]

    def test_bytes_cut_by_the_snap_length_cut_their_frames_only(self) -> None:
        packets = [packet._replace(data=packet.data[:84]) for packet in packets_of(exchanges(2))]
        records = records_of(packets)
        complete = records_of(packets_of(exchanges(2)))
        assert kinds(records) == kinds(complete)
        for cut, full in zip(records, complete, strict=True):
            assert full.frame.startswith(cut.frame)
            assert msgspec.structs.replace(cut, frame=full.frame) == full
        assert any(record.is_cut for record in records)

    def test_a_boundary_is_not_sought_at_huge_frames(self) -> None:
        huge = produce(1, acks=1, records="A" * (MAX_RESUMED_FRAME * 2))
        packets = packets_of(to_broker(huge, metadata(2)))[HANDSHAKE:]
        assert [record.frame for record in of_kind(records_of(packets), Kind.REQUEST)] == [metadata(2)]


class TestOpaque:
    @pytest.mark.parametrize(
        ("hello", "protocol"),
        [
            (bytes.fromhex("16030100a5010000a10303"), OtherProtocol.TLS),
            (b"GET / HTTP/1.1\r\n\r\n", OtherProtocol.HTTP),
            (bytes(64), OtherProtocol.NOISE),
        ],
    )
    def test_another_protocol_is_skipped_and_counted(self, hello: bytes, protocol: OtherProtocol) -> None:
        tracker = new_tracker()
        records = feed_all(
            tracker, packets_of([(TO_BROKER, hello), (TO_CLIENT, bytes(50)), (TO_BROKER, hello)])
        )
        assert kinds(records) == [Kind.OPENED, Kind.GAP, Kind.NOT_KAFKA, Kind.CLOSED]
        assert tracker.ledger.opaque == tracker.port_ledgers[9092].opaque == {protocol: 1}
        assert tracker.ledger.skipped == {SkipReason.OPAQUE: 2 * len(hello) + 50}

    def test_a_server_that_sends_first_is_not_a_broker(self) -> None:
        """Its greeting is no invalid size, either."""
        tracker = new_tracker()
        banner = b"SSH-2.0-OpenSSH_9.2\r\n"
        records = feed_all(tracker, packets_of([(TO_CLIENT, banner), (TO_BROKER, banner)]))
        assert kinds(records) == [Kind.OPENED, Kind.GAP, Kind.CLOSED]
        assert tracker.ledger.opaque == {OtherProtocol.SSH: 1}
        assert tracker.ledger.skipped == {SkipReason.OPAQUE: 2 * len(banner)}

    @pytest.mark.parametrize("direction", [TO_BROKER, TO_CLIENT])
    @pytest.mark.parametrize("segment", [100, 60_000])
    def test_tls_that_is_joined_mid_stream_is_skipped(self, direction: Direction, segment: int) -> None:
        record = b"\x17\x03\x03" + (300).to_bytes(2) + bytes(range(150)) * 2
        tracker = new_tracker()
        packets = packets_of([(direction, record), (direction, record * 2)], segment=segment)
        records = feed_all(tracker, packets[HANDSHAKE:])
        assert kinds(records) == [Kind.OPENED, Kind.GAP, Kind.CLOSED]
        assert tracker.ledger.opaque == {OtherProtocol.TLS: 1}
        assert tracker.ledger.skipped == {SkipReason.OPAQUE: 3 * len(record)}

    def test_bytes_that_only_begin_like_tls_are_not_skipped(self) -> None:
        trap = b"\x17\x03\x03" + (30).to_bytes(2) + bytes(40)
        events = [*to_broker(metadata(1)), (TO_BROKER, trap), *to_broker(metadata(2))]
        tracker = new_tracker()
        records = feed_all(tracker, packets_of(events)[HANDSHAKE + 1 :])
        assert [record.frame for record in of_kind(records, Kind.REQUEST)] == [metadata(2)]
        assert tracker.ledger.opaque_connections == 0

    def test_a_hole_after_the_first_request_does_not_bring_an_excluded_client_back(self) -> None:
        """The hole begins in the first request and ends behind it, so the boundary is lost, too."""
        first, second = prefixed(metadata(1)), prefixed(metadata(2))
        responses = to_client(metadata_response(1), metadata_response(2))
        events = [(TO_BROKER, first + second), *responses, *exchanges(4)[6:]]
        packets = packets_of(events, segment=len(first) - 5)
        tracker = new_tracker(excludes_client="client".__eq__)
        records = feed_all(tracker, packets[: HANDSHAKE + 1] + packets[HANDSHAKE + 3 :])
        assert kinds(records) == [Kind.OPENED, Kind.REQUEST, Kind.GAP, Kind.CLOSED]
        assert tracker.ledger.skipped.keys() == {SkipReason.EXCLUDED}

    def test_tls_records_inside_a_kafka_conversation_do_not_make_it_opaque(self) -> None:
        record = b"\x17\x03\x03" + (30).to_bytes(2) + bytes(30)
        events = [*to_broker(metadata(1)), (TO_BROKER, record), *to_broker(metadata(2))]
        records = records_of(packets_of(events))
        assert [record.frame for record in of_kind(records, Kind.REQUEST)] == [metadata(1), metadata(2)]


def test_a_gap_has_the_direction_and_size_of_what_was_lost() -> None:
    packets = packets_of(exchanges(3))
    for lost, (direction, data) in enumerate(exchanges(3), HANDSHAKE):
        (gap,) = of_kind(records_of(packets[:lost] + packets[lost + 1 :]), Kind.GAP)
        assert (gap.direction, gap.true_length) == (direction, len(data))
