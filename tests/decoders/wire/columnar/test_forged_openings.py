"""A forged SYN replaces no connection, and a request before the handshake is over accuses nobody."""

from __future__ import annotations

import pytest

from decoders.frame.record import Closing, Flag, Kind
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.ledger import Contradiction
from decoders.wire.segment import Segment
from tests.decoders.wire.columnar.equality import assert_equal, placed
from tests.decoders.wire.columnar.forging import (
    ACK,
    AT,
    FAR,
    FROM_BROKER,
    FROM_CLIENT,
    PACKETS,
    RST,
    SYN,
    inserted,
    like,
    said,
)
from tests.decoders.wire.conversation import (
    CLIENT,
    HANDSHAKE,
    SECOND,
    balances,
    exchanges,
    feed_all,
    metadata,
    new_columnar_tracker,
    new_tracker,
    of_kind,
    packets_of,
    prefixed,
    records_of,
)


class TestSyn:
    @pytest.mark.parametrize("sequence", [777, -FAR, FAR])
    def test_one_that_the_broker_does_not_answer_replaces_nothing(self, sequence: int) -> None:
        records, _ = inserted(like(FROM_CLIENT, flags=SYN, sequence=sequence))
        assert said(records) == said(records_of(PACKETS))

    def test_many_of_them_keep_no_connection_on_the_slow_path(self, slow_path: list[Segment]) -> None:
        syn = like(FROM_CLIENT, flags=SYN, sequence=777)
        tracker = new_columnar_tracker()
        tracker.feed(PacketBatch.of([*PACKETS[:AT], *[syn] * 20, *PACKETS[AT:]]))
        # The SYNs, and the client's request before the broker speaks.
        assert len(slow_path) == 20 + 2

    def test_one_that_the_broker_answers_replaces_the_connection(self) -> None:
        again = packets_of(exchanges(2), start=60 * SECOND, sequences=(FAR, 77))
        records = assert_equal(placed([*PACKETS[:-2], *again]))
        assert [each.closing for each in of_kind(records, Kind.CLOSED)] == [Closing.REPLACED, Closing.FIN]
        assert [each.flags for each in of_kind(records, Kind.OPENED)] == [Flag.NONE, Flag.NONE]
        assert said(records)[-len(records_of(again)) :] == said(records_of(again))

    @pytest.mark.parametrize("initial", [FAR, 3 * FAR, 1 << 31])
    def test_so_does_one_whose_syn_ack_was_not_captured(self, initial: int) -> None:
        again = packets_of(exchanges(4), start=60 * SECOND, sequences=(initial, 2 * initial))
        del again[1]
        records = assert_equal(placed([*PACKETS[:-2], *again]), [30, 31, 32, 33])
        assert of_kind(records, Kind.CLOSED)[0].closing is Closing.REPLACED
        assert metadata(4) in [each.frame for each in records[-4:]]

    def test_where_the_broker_is_not_captured_a_syn_suffices(self) -> None:
        again = packets_of(exchanges(2), start=60 * SECOND, sequences=(FAR, 77))
        sent = [each for each in [*PACKETS[:-2], *again] if each.data[26:30] == CLIENT.address]
        records = assert_equal(placed(sent))
        assert of_kind(records, Kind.CLOSED)[0].closing is Closing.REPLACED
        assert len(of_kind(records, Kind.REQUEST)) == 5 + 3


class TestHandshake:
    """Packets with the address of a host that opens nothing, or not yet."""

    OPENING = PACKETS[:HANDSHAKE]
    REQUEST = PACKETS[HANDSHAKE]
    REFUSAL = like(PACKETS[HANDSHAKE], flags=RST)
    """The host's own segment: it knows nothing of the SYN that the broker has answered."""

    @pytest.mark.parametrize("acknowledgment", [-1, 1, -FAR, FAR, 1 << 31])
    @pytest.mark.parametrize("at", [1, 2], ids=["before the SYN-ACK", "behind it"])
    def test_a_request_of_who_does_not_know_the_syn_ack_accuses_nobody(
        self, acknowledgment: int, at: int
    ) -> None:
        payload = prefixed(metadata(1))
        forged = like(self.REQUEST, flags=ACK, acknowledgment=acknowledgment, payload=payload)
        packets = self.OPENING[:2]
        packets.insert(at, forged)
        records = assert_equal(placed([*packets, self.REFUSAL]), range(4))
        assert [each.kind for each in records] == [Kind.OPENED, Kind.CLOSED]

    @pytest.mark.parametrize("acknowledgment", [-1, 1, -40, -FAR, FAR, 1 << 31])
    @pytest.mark.parametrize("delay", [0, 30 * SECOND])
    def test_nor_does_one_behind_the_reset_of_the_host(self, acknowledgment: int, delay: int) -> None:
        payload = prefixed(metadata(1)) + prefixed(metadata(2))
        forged = like(self.REQUEST, flags=ACK, acknowledgment=acknowledgment, payload=payload, earlier=-delay)
        packets = placed([*self.OPENING[:2], self.REFUSAL, forged, self.REFUSAL])
        records = assert_equal(packets, range(len(packets)))
        assert [each.kind for each in records] == [Kind.OPENED, Kind.CLOSED]
        tracker = new_tracker()
        feed_all(tracker, packets)
        assert tracker.ledger.contradictions[Contradiction.ACKNOWLEDGMENT] == 1

    @pytest.mark.parametrize("flags", [ACK, 0], ids=["far", "without ACK"])
    def test_nor_one_behind_the_end_of_a_connection_that_spoke(self, flags: int) -> None:
        forged = like(FROM_CLIENT, flags=flags, acknowledgment=FAR, payload=prefixed(metadata(1)) * 2)
        ended = [*PACKETS[:AT], like(FROM_CLIENT, flags=RST | ACK)]
        records = assert_equal(placed([*ended, forged]), range(AT + 2))
        assert said(records) == said(records_of(ended))

    def test_a_client_that_seems_to_disown_its_connection_and_goes_on_is_read(self) -> None:
        """It sends a RST with a wrong checksum, and then its requests."""
        packets = placed([*self.OPENING[:2], self.REFUSAL, *PACKETS[2:]])
        records = assert_equal(packets, range(len(packets)))
        assert len(of_kind(records, Kind.REQUEST)) == 5

    def test_what_a_client_said_before_its_own_reset_counts(self) -> None:
        reset = like(FROM_CLIENT, flags=RST)
        records = assert_equal(placed([*PACKETS[:AT], reset]), range(AT + 1))
        assert said(records)[:-1] == said(records_of(PACKETS))[: len(records) - 1]
        assert records[-1].closing is Closing.RST

    def test_nor_does_the_request_in_a_syn(self) -> None:
        syn = like(PACKETS[0], flags=SYN, payload=prefixed(metadata(1)))
        taken = like(PACKETS[1], flags=SYN | ACK, acknowledgment=len(prefixed(metadata(1))))
        records = assert_equal(placed([syn, taken, self.REFUSAL]), range(3))
        assert Kind.REQUEST not in [each.kind for each in records]
        tracker = new_tracker()
        feed_all(tracker, [syn, taken, self.REFUSAL])
        tracker.finish()
        assert balances(tracker.ledger)

    def test_the_client_itself_is_read_behind_forged_requests(self) -> None:
        forged = like(self.REQUEST, flags=ACK, acknowledgment=77, payload=prefixed(metadata(1)))
        records, _ = inserted(*[forged] * 3, at=2)
        assert said(records) == said(records_of(PACKETS))

    def test_a_first_request_may_acknowledge_the_syn_ack_itself(self) -> None:
        packets = placed([*self.OPENING[:2], *PACKETS[HANDSHAKE:]])
        assert said(assert_equal(packets, range(len(packets)))) == said(records_of(PACKETS))

    @pytest.mark.parametrize("lost", [0, 1, 2])
    def test_a_handshake_that_was_not_captured_whole(self, lost: int) -> None:
        packets = placed([*PACKETS[:lost], *PACKETS[lost + 1 :]])
        records = assert_equal(packets, range(len(packets)))
        assert len(of_kind(records, Kind.REQUEST)) == 5


@pytest.mark.parametrize("at", [1, 2, 3, AT])
def test_bytes_of_a_repeated_syn_are_not_read(at: int) -> None:
    records, _ = inserted(like(PACKETS[0], flags=SYN, payload=prefixed(metadata(9))), at=at)
    assert said(records) == said(records_of(PACKETS))


@pytest.mark.parametrize("flags", [SYN, SYN | ACK])
@pytest.mark.parametrize(("sequence", "acknowledgment"), [(0, 0), (FAR, -FAR), (123_456_789, 987_654_321)])
def test_a_syn_of_the_broker_that_answers_none_replaces_nothing(
    flags: int, sequence: int, acknowledgment: int
) -> None:
    forged = like(FROM_BROKER, flags=flags, sequence=sequence, acknowledgment=acknowledgment)
    records, _ = inserted(forged)
    assert said(records) == said(records_of(PACKETS))
