"""The Kafka layer of a connection: pairing, settled and informed requests, SASL tokens, invalid sizes."""

from __future__ import annotations

import pytest

from decoders.frame.record import Direction, Flag, Kind, Pairing
from decoders.protocol import API_VERSIONS
from decoders.wire.segment import Packet
from decoders.wire.synthesis import RELAY_DELAY, SyntheticConnection
from tests.decoders.wire.conversation import (
    CLIENT,
    HANDSHAKE,
    SECOND,
    SERVER,
    TO_BROKER,
    TO_CLIENT,
    Event,
    api_versions,
    api_versions_response,
    exchanges,
    kinds,
    metadata,
    metadata_response,
    of_kind,
    packets_of,
    pairings,
    prefixed,
    produce,
    produce_response,
    records_of,
    request,
    response,
    to_broker,
    to_client,
)


def flags_of(packets: list[Packet]) -> list[Flag]:
    return [record.flags for record in of_kind(records_of(packets), Kind.REQUEST)]


class TestPairing:
    def test_a_produce_with_acks_0_expects_no_response(self) -> None:
        events = to_broker(produce(1, acks=0), produce(2, acks=1)) + to_client(produce_response(2))
        assert pairings(records_of(packets_of(events))) == [Pairing.MATCHED]

    def test_responses_to_pipelined_requests_are_in_order(self) -> None:
        events = to_broker(metadata(9), metadata(3), api_versions(5))
        events += to_client(metadata_response(9), metadata_response(3), api_versions_response(5))
        records = records_of(packets_of(events))
        assert [record.paired_sequence for record in of_kind(records, Kind.RESPONSE)] == [2, 3, 4]

    def test_a_foreign_response_and_one_without_a_request(self) -> None:
        events = to_broker(metadata(1)) + to_client(metadata_response(8))
        assert pairings(records_of(packets_of(events))) == [Pairing.FOREIGN]
        events = exchanges(1) + to_client(metadata_response(8))
        assert pairings(records_of(packets_of(events)))[-1] is Pairing.UNOWED

    def test_an_undecodable_produce_makes_pairing_uncertain_until_it_is_known_again(self) -> None:
        garbage = produce(1, acks=1)[:12]
        events = to_broker(garbage, metadata(2)) + to_client(metadata_response(77), metadata_response(2))
        assert pairings(records_of(packets_of(events))) == [Pairing.UNKNOWN, Pairing.MATCHED]

    def test_a_request_of_an_unknown_version_expects_a_response(self) -> None:
        unknown = bytes.fromhex("0012 0063 00000001 0000 00 01 01 00")
        reply = bytes.fromhex("00000001 0023 00000001 0012 0000 0005")
        (record,) = of_kind(records_of(packets_of(to_broker(unknown) + to_client(reply))), Kind.RESPONSE)
        assert (record.pairing, record.paired_api_key, record.paired_api_version) == (Pairing.MATCHED, 18, 99)


class TestSettled:
    def settled(self, delay: int, acknowledgment_delay: int = 0) -> bool:
        """Whether a request `delay` nanoseconds after the ApiVersions response is settled."""
        connection = SyntheticConnection(CLIENT, SERVER, acknowledgment_delay=acknowledgment_delay)
        packets = connection.opened(0) + connection.sent(SECOND, TO_BROKER, prefixed(api_versions(0)))
        packets += connection.sent(2 * SECOND, TO_CLIENT, prefixed(api_versions_response(0)))
        packets += connection.sent(2 * SECOND + delay, TO_BROKER, prefixed(metadata(1)))
        first, second = of_kind(records_of(packets), Kind.REQUEST)
        assert Flag.SETTLED not in first.flags
        return Flag.SETTLED in second.flags

    def test_a_request_is_settled_one_second_after_the_response_that_it_acknowledges(self) -> None:
        assert self.settled(SECOND)
        assert not self.settled(SECOND - 1)

    def test_a_request_that_does_not_acknowledge_the_response_is_not_settled(self) -> None:
        assert not self.settled(3 * SECOND, acknowledgment_delay=4 * SECOND)

    def test_a_relays_request_is_settled_after_five_seconds(self) -> None:
        assert self.settled(5 * SECOND, acknowledgment_delay=RELAY_DELAY)
        assert not self.settled(5 * SECOND - 1, acknowledgment_delay=RELAY_DELAY)

    def test_only_the_latest_api_versions_response_counts(self) -> None:
        events = (
            exchanges(1)
            + to_broker(api_versions(2))
            + to_client(api_versions_response(2))
            + to_broker(metadata(3))
        )
        flags = flags_of(packets_of(events, interval=SECOND // 2 + 1))
        # Half a second after a response, a second and a half, half a second after the next response.
        assert flags == [Flag.NONE, Flag.INFORMED, Flag.SETTLED, Flag.INFORMED]

    def test_a_lost_response_to_another_request_leaves_requests_settled(self) -> None:
        packets = packets_of(exchanges(3))
        lost = HANDSHAKE + 3
        flags = flags_of(packets[:lost] + packets[lost + 1 :])
        assert flags == [Flag.NONE, Flag.SETTLED, Flag.SETTLED, Flag.SETTLED]

    def test_after_a_lost_api_versions_response_requests_are_not_settled(self) -> None:
        packets = packets_of(exchanges(3))
        lost = HANDSHAKE + 1
        assert flags_of(packets[:lost] + packets[lost + 1 :]) == [Flag.NONE] * 4

    def test_a_lost_request_may_have_been_api_versions_and_its_response_shows_it(self) -> None:
        events = exchanges(1) + to_broker(api_versions(2)) + to_client(api_versions_response(2))
        packets = packets_of(events + exchanges(4)[6:])
        lost = HANDSHAKE + 4
        records = records_of(packets[:lost] + packets[lost + 1 :])
        unpaired = [record for record in records if record.pairing is Pairing.UNKNOWN]
        assert [record.paired_api_key for record in unpaired] == [API_VERSIONS]
        assert [record.flags for record in of_kind(records, Kind.REQUEST)][2:] == [Flag.NONE, Flag.NONE]

    def test_a_lost_request_that_was_something_else_leaves_requests_settled(self) -> None:
        packets = packets_of(exchanges(3))
        lost = HANDSHAKE + 2
        records = records_of(packets[:lost] + packets[lost + 1 :])
        unpaired = [record for record in records if record.pairing is Pairing.UNKNOWN]
        assert [record.paired_api_key for record in unpaired] == [-1]
        assert [record.flags for record in of_kind(records, Kind.REQUEST)] == [
            Flag.NONE,
            Flag.SETTLED,
            Flag.SETTLED,
        ]


class TestInformed:
    """Requests within a second of the ApiVersions response."""

    def flags(self, events: list[Event], acknowledgment_delay: int = 0) -> list[Flag]:
        return flags_of(packets_of(events, interval=SECOND // 100, acknowledgment_delay=acknowledgment_delay))

    def test_a_client_that_waits_for_each_response_is_informed(self) -> None:
        assert self.flags(exchanges(3)) == [Flag.NONE, Flag.INFORMED, Flag.INFORMED, Flag.INFORMED]

    def test_a_request_that_does_not_acknowledge_the_latest_response_is_not_informed(self) -> None:
        assert self.flags(exchanges(2), acknowledgment_delay=SECOND // 2) == [Flag.NONE] * 3

    def test_requests_at_once_are_in_turn_only_for_the_first(self) -> None:
        events = exchanges(1)[:2] + to_broker(metadata(1), metadata(2), metadata(3))
        assert self.flags(events) == [Flag.NONE, Flag.INFORMED, Flag.NONE, Flag.NONE]

    def test_after_responses_to_requests_at_once_the_next_is_informed_again(self) -> None:
        events = exchanges(1)[:2] + to_broker(metadata(1), metadata(2))
        events += to_client(metadata_response(1), metadata_response(2)) + to_broker(metadata(3))
        assert self.flags(events) == [Flag.NONE, Flag.INFORMED, Flag.NONE, Flag.INFORMED]

    def test_a_client_that_sends_while_it_waits_for_api_versions_is_not_informed(self) -> None:
        events = to_broker(api_versions(0), metadata(1))
        events += to_client(api_versions_response(0), metadata_response(1)) + to_broker(metadata(2))
        assert self.flags(events) == [Flag.NONE] * 3

    def test_a_client_that_asks_while_it_waits_for_something_else_is_not_informed(self) -> None:
        events = to_broker(metadata(1), api_versions(0))
        events += to_client(metadata_response(1), api_versions_response(0)) + to_broker(metadata(2))
        assert self.flags(events) == [Flag.NONE] * 3

    def test_after_a_produce_with_acks_0_only_a_response_shows_that_the_client_waited(self) -> None:
        events = exchanges(1)[:2] + to_broker(produce(1, acks=0), produce(2, acks=0), metadata(3))
        events += to_client(metadata_response(3)) + to_broker(metadata(4))
        assert self.flags(events) == [Flag.NONE, Flag.INFORMED, Flag.NONE, Flag.NONE, Flag.INFORMED]

    def test_a_relays_request_is_never_informed(self) -> None:
        """Its acknowledgments say nothing of the client before the request is settled."""
        assert self.flags(exchanges(3), acknowledgment_delay=RELAY_DELAY) == [Flag.NONE] * 4

    def test_after_a_gap_a_response_must_show_that_nothing_is_in_flight(self) -> None:
        packets = packets_of(exchanges(4), interval=SECOND // 100)
        lost = HANDSHAKE + 2
        flags = flags_of(packets[:lost] + packets[lost + 1 :])
        assert flags == [Flag.NONE, Flag.NONE, Flag.INFORMED, Flag.INFORMED]


class TestSasl:
    def test_tokens_after_a_version_0_handshake_are_blanked_until_a_request_decodes(self) -> None:
        handshake = request("SaslHandshake", 0, 1, mechanism="SCRAM-SHA-256")
        accepted = response("SaslHandshake", 0, 1, mechanisms=["SCRAM-SHA-256"])
        events = (
            to_broker(handshake) + to_client(accepted) + to_broker(b"n,,n=user") + to_client(b"r=nonce", b"")
        )
        events += to_broker(b"", metadata(2)) + to_client(metadata_response(2))
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

    def test_after_reauthentication_raw_tokens_begin_behind_the_responses_in_flight(self) -> None:
        """KIP-368: the client may have sent requests before the second handshake."""
        handshake = [request("SaslHandshake", 0, number, mechanism="PLAIN") for number in (1, 4)]
        accepted = [response("SaslHandshake", 0, number, mechanisms=["PLAIN"]) for number in (1, 4)]
        events = (
            to_broker(handshake[0]) + to_client(accepted[0]) + to_broker(b"\0user\0secret") + to_client(b"")
        )
        events += to_broker(metadata(2)) + to_client(metadata_response(2))
        events += to_broker(metadata(3), handshake[1]) + to_client(metadata_response(3), accepted[1])
        events += (
            to_broker(b"\0user\0secret")
            + to_client(b"")
            + to_broker(metadata(5))
            + to_client(metadata_response(5))
        )
        records = records_of(packets_of(events))
        assert [record.true_length for record in of_kind(records, Kind.SASL_TOKEN)] == [12, 0, 12, 0]
        assert pairings(records) == [Pairing.MATCHED] * 5
        assert not any(any(record.frame) for record in of_kind(records, Kind.SASL_TOKEN))

    def test_after_a_version_1_handshake_frames_are_requests(self) -> None:
        handshake = request("SaslHandshake", 1, 1, mechanism="PLAIN")
        accepted = response("SaslHandshake", 1, 1, mechanisms=["PLAIN"])
        token = request("SaslAuthenticate", 2, 2, authBytes="AHVzZXIAcGFzcw==")
        events = to_broker(handshake) + to_client(accepted) + to_broker(token)
        assert kinds(records_of(packets_of(events)))[-2:] == [Kind.REQUEST, Kind.CLOSED]


class TestInvalidSizes:
    @pytest.mark.parametrize("size", [-1, -(1 << 31), 100 * 1024 * 1024 + 1, (1 << 31) - 1])
    @pytest.mark.parametrize("direction", [TO_BROKER, TO_CLIENT])
    def test_an_impossible_size_is_recorded_and_framing_resumes(
        self, size: int, direction: Direction
    ) -> None:
        bad = (direction, size.to_bytes(4, signed=True) + b"what follows")
        packets = packets_of([*exchanges(1), bad, *exchanges(3)[4:]])
        records = records_of([packet._replace(position=index) for index, packet in enumerate(packets)])
        (invalid,) = of_kind(records, Kind.INVALID_SIZE)
        assert (invalid.direction, invalid.true_length, invalid.position) == (
            direction,
            size % (1 << 32),
            HANDSHAKE + 4,
        )
        assert [gap.direction for gap in of_kind(records, Kind.GAP)] == [direction]
        assert len(of_kind(records, Kind.REQUEST)) == 4
        assert not {Pairing.FOREIGN, Pairing.UNOWED} & set(pairings(records))

    @pytest.mark.parametrize("frame", [b"", b"a", b"abc"])
    @pytest.mark.parametrize("direction", [TO_BROKER, TO_CLIENT])
    def test_a_size_below_that_of_any_frame_is_recorded_and_framing_continues(
        self, frame: bytes, direction: Direction
    ) -> None:
        packets = packets_of([*exchanges(1), (direction, prefixed(frame)), *exchanges(3)[4:]])
        records = records_of(packets)
        (invalid,) = of_kind(records, Kind.INVALID_SIZE)
        assert (invalid.direction, invalid.true_length, invalid.frame) == (direction, len(frame), b"")
        assert Kind.GAP not in kinds(records)
        assert set(pairings(records)) == {Pairing.MATCHED}
