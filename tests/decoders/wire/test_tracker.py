"""Packets in, records out: one scenario a test, all in real Kafka bytes."""

from __future__ import annotations

import dataclasses

import pytest

from decoders.frame.record import Closing, Direction, Flag, Kind, Pairing, Record
from decoders.wire.evidence import MAX_SOUGHT
from decoders.wire.ledger import Reason
from decoders.wire.packet import Packet
from decoders.wire.segment import SocketAddress
from decoders.wire.synthesis import RELAY_DELAY, SyntheticConnection
from decoders.wire.tracker import IDLE_AFTER, LINGER
from tests.decoders.wire.conversation import (
    CLIENT,
    SECOND,
    SERVER,
    TO_BROKER,
    TO_CLIENT,
    Event,
    api_versions,
    api_versions_answer,
    exchanges,
    fed,
    metadata,
    metadata_answer,
    packets_of,
    prefixed,
    produce,
    produce_answer,
    records_of,
    request,
    response,
    tracker,
)

HANDSHAKE = 3


def kinds(records: list[Record]) -> list[Kind]:
    return [record.kind for record in records]


def of_kind(records: list[Record], kind: Kind) -> list[Record]:
    return [record for record in records if record.kind is kind]


def pairings(records: list[Record]) -> list[Pairing]:
    return [record.pairing for record in of_kind(records, Kind.RESPONSE)]


def asked(*frames: bytes) -> list[Event]:
    return [(TO_BROKER, prefixed(frame)) for frame in frames]


def answered(*frames: bytes) -> list[Event]:
    return [(TO_CLIENT, prefixed(frame)) for frame in frames]


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
            metadata_answer(1),
            len(metadata_answer(1)),
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
        followed = tracker()
        records = fed(followed, packets_of(exchanges(0)) + other.opened(0))
        assert [record.sequence for record in records] == [1, 2, 3, 4, 5]
        assert len({record.connection for record in records}) == 2

    def test_a_frame_stands_where_its_first_segment_does(self) -> None:
        packets = [
            packet._replace(position=index)
            for index, packet in enumerate(packets_of(exchanges(0), segment=10))
        ]
        versions = of_kind(records_of(packets), Kind.REQUEST)[0]
        assert versions.position == HANDSHAKE

    def test_the_end_of_the_source_closes_nothing(self) -> None:
        followed = tracker()
        fed(followed, packets_of(exchanges(1), close=False))
        assert len(followed.connections) == 1
        assert followed.finish() == []

    def test_a_port_probe_opens_and_closes(self) -> None:
        assert kinds(records_of(packets_of([]))) == [Kind.OPENED, Kind.CLOSED]

    def test_half_close_does_not_end_the_other_direction(self) -> None:
        connection = SyntheticConnection(CLIENT, SERVER)
        packets = connection.opened(0) + connection.sent(1, TO_BROKER, prefixed(metadata(1)))
        packets += connection.finished(2, TO_BROKER) + connection.sent(
            3, TO_CLIENT, prefixed(metadata_answer(1))
        )
        packets += connection.finished(4, TO_CLIENT)
        assert kinds(records_of(packets)) == [Kind.OPENED, Kind.REQUEST, Kind.RESPONSE, Kind.CLOSED]

    def test_a_reset_closes_and_says_whose_it_was(self) -> None:
        connection = SyntheticConnection(CLIENT, SERVER)
        records = records_of(connection.opened(0) + connection.reset(1, TO_CLIENT))
        assert (records[-1].closing, records[-1].direction) == (Closing.RST, TO_CLIENT)


class TestOrientation:
    @pytest.mark.parametrize("ports", [{9092}, set()], ids=["by port", "by SYN"])
    def test_the_server_is_told(self, ports: set[int]) -> None:
        assert records_of(packets_of(exchanges(0)), ports=ports)[0].server == "10.0.0.2:9092"

    def test_without_ports_a_request_tells_the_server_of_a_connection_joined_mid_stream(self) -> None:
        packets = packets_of(exchanges(2))[HANDSHAKE + 1 :]
        followed = tracker(ports=())
        records = fed(followed, packets)
        assert (records[0].server, records[0].flags) == ("10.0.0.2:9092", Flag.MID_STREAM)
        assert followed.ledger.skipped[Reason.UNORIENTED] == len(prefixed(api_versions_answer(0)))

    def test_ports_that_are_not_watched_are_booked(self) -> None:
        followed = tracker(ports={9999})
        assert fed(followed, packets_of(exchanges(1))) == []
        assert followed.ledger.skipped == {Reason.OTHER_PORT: followed.ledger.captured}


class TestPairing:
    def test_an_unacknowledged_produce_is_owed_no_answer(self) -> None:
        events = asked(produce(1, acks=0), produce(2, acks=1)) + answered(produce_answer(2))
        assert pairings(records_of(packets_of(events))) == [Pairing.MATCHED]

    def test_pipelined_requests_are_answered_in_order(self) -> None:
        events = asked(metadata(9), metadata(3), api_versions(5))
        events += answered(metadata_answer(9), metadata_answer(3), api_versions_answer(5))
        records = records_of(packets_of(events))
        assert [record.paired_sequence for record in of_kind(records, Kind.RESPONSE)] == [2, 3, 4]

    def test_a_foreign_answer_and_one_that_is_not_owed(self) -> None:
        events = asked(metadata(1)) + answered(metadata_answer(8))
        assert pairings(records_of(packets_of(events))) == [Pairing.FOREIGN]
        events = exchanges(1) + answered(metadata_answer(8))
        assert pairings(records_of(packets_of(events)))[-1] is Pairing.UNOWED

    def test_an_undecodable_produce_makes_pairing_uncertain_until_it_is_known_again(self) -> None:
        garbage = produce(1, acks=1)[:12]
        events = asked(garbage, metadata(2)) + answered(metadata_answer(77), metadata_answer(2))
        assert pairings(records_of(packets_of(events))) == [Pairing.UNKNOWN, Pairing.MATCHED]

    def test_a_request_of_a_version_that_nobody_knows_is_owed_an_answer(self) -> None:
        unknown = bytes.fromhex("0012 0063 00000001 0000 00 01 01 00")
        answer = bytes.fromhex("00000001 0023 00000001 0012 0000 0005")
        (told,) = of_kind(records_of(packets_of(asked(unknown) + answered(answer))), Kind.RESPONSE)
        assert (told.pairing, told.paired_api_key, told.paired_api_version) == (Pairing.MATCHED, 18, 99)


class TestSettled:
    def settled(self, delay: int, acknowledgment_delay: int = 0) -> bool:
        """Whether a request `delay` nanoseconds after the ApiVersions answer is settled."""
        connection = SyntheticConnection(CLIENT, SERVER, acknowledgment_delay=acknowledgment_delay)
        packets = connection.opened(0) + connection.sent(SECOND, TO_BROKER, prefixed(api_versions(0)))
        packets += connection.sent(2 * SECOND, TO_CLIENT, prefixed(api_versions_answer(0)))
        packets += connection.sent(2 * SECOND + delay, TO_BROKER, prefixed(metadata(1)))
        first, second = of_kind(records_of(packets), Kind.REQUEST)
        assert Flag.SETTLED not in first.flags
        return Flag.SETTLED in second.flags

    def test_a_request_is_settled_one_second_after_the_answer_that_it_acknowledges(self) -> None:
        assert self.settled(SECOND)
        assert not self.settled(SECOND - 1)

    def test_a_request_that_does_not_acknowledge_the_answer_was_in_flight(self) -> None:
        assert not self.settled(3 * SECOND, acknowledgment_delay=4 * SECOND)

    def test_a_relays_request_is_settled_after_five_seconds(self) -> None:
        assert self.settled(5 * SECOND, acknowledgment_delay=RELAY_DELAY)
        assert not self.settled(5 * SECOND - 1, acknowledgment_delay=RELAY_DELAY)

    def test_only_the_latest_answer_counts_and_only_to_api_versions(self) -> None:
        events = exchanges(1) + asked(api_versions(2)) + answered(api_versions_answer(2)) + asked(metadata(3))
        packets = packets_of(events, interval=SECOND // 2 + 1)
        flags = [record.flags for record in of_kind(records_of(packets), Kind.REQUEST)]
        # Half a second after an answer, a second and a half, half a second after the next answer.
        assert flags == [Flag.NONE, Flag.NONE, Flag.SETTLED, Flag.NONE]

    def test_a_loss_in_the_answers_unsettles(self) -> None:
        packets = packets_of(exchanges(3))
        lost = HANDSHAKE + 3
        flags = [
            record.flags for record in of_kind(records_of(packets[:lost] + packets[lost + 1 :]), Kind.REQUEST)
        ]
        assert flags == [Flag.NONE, Flag.SETTLED, Flag.NONE, Flag.NONE]


class TestSasl:
    def test_tokens_after_a_version_0_handshake_are_blanked_until_a_request_decodes(self) -> None:
        handshake = request("SaslHandshake", 0, 1, mechanism="SCRAM-SHA-256")
        accepted = response("SaslHandshake", 0, 1, mechanisms=["SCRAM-SHA-256"])
        events = asked(handshake) + answered(accepted) + asked(b"n,,n=user") + answered(b"r=nonce", b"")
        events += asked(b"", metadata(2)) + answered(metadata_answer(2))
        records = records_of(packets_of(events))
        assert [(record.kind, record.direction) for record in records[1:-1]] == [
            (Kind.REQUEST, TO_BROKER),
            (Kind.RESPONSE, TO_CLIENT),
            (Kind.SASL_TOKEN, TO_BROKER),
            (Kind.SASL_TOKEN, TO_CLIENT),
            (Kind.SASL_TOKEN, TO_CLIENT),
            (Kind.SASL_TOKEN, TO_BROKER),
            (Kind.REQUEST, TO_BROKER),
            (Kind.RESPONSE, TO_CLIENT),
        ]
        assert [record.frame for record in of_kind(records, Kind.SASL_TOKEN)] == [
            bytes(9),
            bytes(7),
            b"",
            b"",
        ]
        assert set(pairings(records)) == {Pairing.MATCHED}

    def test_after_a_version_1_handshake_frames_are_requests(self) -> None:
        handshake = request("SaslHandshake", 1, 1, mechanism="PLAIN")
        accepted = response("SaslHandshake", 1, 1, mechanisms=["PLAIN"])
        token = request("SaslAuthenticate", 2, 2, authBytes="AHVzZXIAcGFzcw==")
        events = asked(handshake) + answered(accepted) + asked(token)
        assert kinds(records_of(packets_of(events)))[-2:] == [Kind.REQUEST, Kind.CLOSED]


class TestLoss:
    def test_a_lost_request_is_a_gap_before_its_answer_and_accuses_nobody(self) -> None:
        packets = packets_of(exchanges(3))
        lost = HANDSHAKE + 2
        records = records_of(packets[:lost] + packets[lost + 1 :])
        assert kinds(records)[3:6] == [Kind.GAP, Kind.RESPONSE, Kind.REQUEST]
        assert (records[3].direction, records[3].true_length) == (TO_BROKER, len(prefixed(metadata(1))))
        assert pairings(records) == [Pairing.MATCHED, Pairing.UNKNOWN, Pairing.MATCHED, Pairing.MATCHED]

    def test_a_lost_answer_is_a_gap_and_the_next_answer_is_found(self) -> None:
        packets = packets_of(exchanges(3))
        lost = HANDSHAKE + 3
        records = records_of(packets[:lost] + packets[lost + 1 :])
        assert (records[4].kind, records[4].direction) == (Kind.GAP, TO_CLIENT)
        assert pairings(records) == [Pairing.MATCHED] * 3

    def test_a_connection_joined_mid_stream_is_told_from_its_first_certain_frame(self) -> None:
        records = records_of(packets_of(exchanges(3))[HANDSHAKE + 3 :])
        assert records[0].flags is Flag.MID_STREAM
        assert [record.frame for record in of_kind(records, Kind.REQUEST)] == [metadata(2), metadata(3)]
        assert pairings(records) == [Pairing.MATCHED, Pairing.MATCHED]

    def test_a_connection_that_begins_with_a_syn_ack_was_seen_from_its_start(self) -> None:
        records = records_of(packets_of(exchanges(1))[1:])
        assert records[0].flags is Flag.NONE
        assert len(of_kind(records, Kind.REQUEST)) == 2
        assert Kind.GAP not in kinds(records)

    def test_without_the_syn_ack_answers_may_have_been_missed(self) -> None:
        packets = packets_of(exchanges(1))
        records = records_of(packets[:1] + packets[2:])
        assert (records[1].kind, records[1].direction) == (Kind.GAP, TO_CLIENT)
        assert pairings(records) == [Pairing.MATCHED, Pairing.MATCHED]

    def test_bytes_cut_by_the_snap_length_cut_their_frames_only(self) -> None:
        packets = [packet._replace(data=packet.data[:84]) for packet in packets_of(exchanges(2))]
        records = records_of(packets)
        whole = records_of(packets_of(exchanges(2)))
        assert kinds(records) == kinds(whole)
        for cut, full in zip(records, whole, strict=True):
            assert full.frame.startswith(cut.frame)
            assert dataclasses.replace(cut, frame=full.frame) == full
        assert any(record.is_cut for record in records)

    def test_a_boundary_is_not_sought_at_huge_frames(self) -> None:
        huge = produce(1, acks=1, records="A" * (MAX_SOUGHT * 2))
        packets = packets_of(asked(huge, metadata(2)))[HANDSHAKE:]
        assert [record.frame for record in of_kind(records_of(packets), Kind.REQUEST)] == [metadata(2)]


class TestOpaque:
    @pytest.mark.parametrize(
        "hello", [bytes.fromhex("16030100a5010000a10303"), b"GET / HTTP/1.1\r\n\r\n", bytes(64)]
    )
    def test_what_is_not_kafka_is_left_alone_and_counted(self, hello: bytes) -> None:
        followed = tracker()
        records = fed(followed, packets_of([(TO_BROKER, hello), (TO_CLIENT, bytes(50)), (TO_BROKER, hello)]))
        assert kinds(records) == [Kind.OPENED, Kind.GAP, Kind.CLOSED]
        assert followed.ledger.opaque_connections == 1
        assert followed.ledger.skipped == {Reason.OPAQUE: 2 * len(hello) + 50}


class TestReuse:
    def test_stragglers_of_a_closed_connection_open_no_new_one(self) -> None:
        packets = packets_of(exchanges(1))
        followed = tracker()
        fed(followed, packets)
        assert fed(followed, packets) == []
        assert followed.ledger.skipped[Reason.AFTER_CLOSE] == followed.ledger.framed

    def test_a_new_handshake_between_the_same_sockets_is_a_new_connection(self) -> None:
        records = records_of(packets_of(exchanges(0)) + packets_of(exchanges(0), sequences=(900, 900)))
        assert kinds(records).count(Kind.OPENED) == 2
        assert len({record.connection for record in records}) == 2

    def test_a_new_handshake_replaces_a_connection_whose_end_was_not_seen(self) -> None:
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

    def test_long_after_its_end_the_same_sockets_may_be_joined_mid_stream(self) -> None:
        late = packets_of(exchanges(1), start=LINGER + 60 * SECOND, sequences=(900, 900))[HANDSHAKE:]
        records = records_of(packets_of(exchanges(0)) + late)
        assert [record.flags for record in of_kind(records, Kind.OPENED)] == [Flag.NONE, Flag.MID_STREAM]


class TestBounds:
    def opening(self, port: int, at: int) -> list[Packet]:
        return SyntheticConnection(SocketAddress(CLIENT.address, port), SERVER).opened(at)

    def test_beyond_the_bound_the_longest_silent_connection_is_evicted(self) -> None:
        followed = tracker(max_connections=2)
        packets = [packet for port in (1, 2, 1, 3) for packet in self.opening(port, port)]
        records = fed(followed, packets)
        (evicted,) = of_kind(records, Kind.CLOSED)
        assert (evicted.client, evicted.closing) == ("10.0.0.1:2", Closing.EVICTED)
        assert len(followed.connections) == 2

    def test_a_silent_connection_is_closed_as_idle(self) -> None:
        records = fed(tracker(), self.opening(1, 0) + self.opening(2, IDLE_AFTER + 1))
        assert [(record.client, record.closing) for record in of_kind(records, Kind.CLOSED)] == [
            ("10.0.0.1:1", Closing.IDLE)
        ]


def test_packets_without_a_segment_are_counted_by_reason() -> None:
    followed = tracker()
    assert followed.feed(Packet(0, 1, bytes(12) + b"\x08\x06" + bytes(28), 42)) == []
    assert followed.ledger.packets == {"not-ip": 1}


def test_gap_records_name_a_direction() -> None:
    packets = packets_of(exchanges(3))
    for lost in range(HANDSHAKE, len(packets)):
        gaps = of_kind(records_of(packets[:lost] + packets[lost + 1 :]), Kind.GAP)
        assert all(gap.direction is not Direction.NONE for gap in gaps)
