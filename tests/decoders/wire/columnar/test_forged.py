"""Forged packets: they neither end a connection nor hide bytes, and honest packets that look alike do."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.frame.record import Closing, Flag, Kind, Pairing, Record
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.ledger import Contradiction
from decoders.wire.segment import Packet, Segment, SocketAddress, TcpFlag, read_segment
from decoders.wire.stream import MAX_AHEAD
from decoders.wire.synthesis import SyntheticConnection, packet_of
from decoders.wire.tracker import Tracker
from decoders.wire.waiting import MAX_WAIT
from tests.decoders.wire.columnar.equality import assert_equal, placed
from tests.decoders.wire.conversation import (
    CLIENT,
    HANDSHAKE,
    SECOND,
    SERVER,
    TO_BROKER,
    TO_CLIENT,
    balances,
    exchanges,
    feed_all,
    metadata,
    metadata_response,
    new_columnar_tracker,
    new_tracker,
    of_kind,
    packets_of,
    prefixed,
    records_of,
)
from tests.examples import examples

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


@pytest.mark.parametrize("flags", [RST, RST | ACK], ids=["rst", "rst-ack"])
@pytest.mark.parametrize("sequence", [-1, -FAR, FAR, MAX_AHEAD + 1, 1 << 31])
@pytest.mark.parametrize("sender", [FROM_CLIENT, FROM_BROKER], ids=["client", "broker"])
def test_a_reset_that_its_receiver_does_not_take_ends_nothing(
    flags: int, sequence: int, sender: Packet
) -> None:
    records, tracker = inserted(like(sender, flags=flags, sequence=sequence))
    assert said(records) == said(records_of(PACKETS))
    assert tracker.ledger.contradictions == {Contradiction.RESET: 1}


@pytest.mark.parametrize("sequence", [1, 500, MAX_AHEAD])
def test_a_reset_in_the_window_ends_nothing_if_the_other_side_goes_on(sequence: int) -> None:
    records, tracker = inserted(like(FROM_CLIENT, flags=RST, sequence=sequence))
    assert said(records) == said(records_of(PACKETS))
    assert tracker.ledger.contradictions == {Contradiction.RESET: 1}


def test_a_reset_in_the_window_counts_if_both_sides_fall_silent() -> None:
    """A request before it was not captured."""
    reset = like(FROM_CLIENT, flags=RST, sequence=40)
    later = SyntheticConnection(SocketAddress(CLIENT.address, 1), SERVER).opened(
        reset.captured_at + MAX_WAIT + 1
    )
    packets = placed([*PACKETS[:AT], reset, *later])
    (closed,) = of_kind(assert_equal(packets), Kind.CLOSED)
    assert (closed.closing, closed.direction) == (Closing.RST, TO_BROKER)


@pytest.mark.parametrize("sender", [FROM_CLIENT, FROM_BROKER], ids=["client", "broker"])
@pytest.mark.parametrize("flags", [RST, RST | ACK])
def test_a_reset_at_the_expected_number_counts_at_once(sender: Packet, flags: int) -> None:
    unsent = 0 if sender is FROM_CLIENT else -len(prefixed(metadata(2)))
    packets = placed([*PACKETS[:AT], like(sender, flags=flags, acknowledgment=unsent)])
    assert of_kind(feed_all(new_tracker(), packets), Kind.CLOSED)[0].closing is Closing.RST
    assert_equal(packets)


def test_a_refused_connection_is_closed() -> None:
    refusal = like(PACKETS[1], flags=RST | ACK, sequence=-9_000)
    (closed,) = of_kind(assert_equal(placed([PACKETS[0], refusal])), Kind.CLOSED)
    assert closed.direction is TO_CLIENT


@pytest.mark.parametrize("acknowledgment", [-1, 1, FAR])
def test_a_refusal_that_acknowledges_something_else_closes_nothing(acknowledgment: int) -> None:
    records, _ = inserted(like(PACKETS[1], flags=RST | ACK, acknowledgment=acknowledgment), at=1)
    assert said(records) == said(records_of(PACKETS))


@pytest.mark.parametrize("sequence", [-200, -FAR, FAR])
def test_a_fin_that_its_receiver_does_not_take_ends_nothing(sequence: int) -> None:
    forged = [
        like(FROM_CLIENT, flags=FIN | ACK, sequence=sequence),
        like(FROM_BROKER, flags=FIN | ACK, sequence=sequence),
    ]
    records, tracker = inserted(*forged)
    assert said(records) == said(records_of(PACKETS))
    assert tracker.ledger.contradictions == {Contradiction.FIN: 2}


def test_a_fin_behind_which_its_sender_goes_on_is_none() -> None:
    records, tracker = inserted(like(FROM_CLIENT, flags=FIN | ACK))
    assert said(records) == said(records_of(PACKETS))
    assert tracker.ledger.contradictions == {Contradiction.FIN: 1}


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


class TestAcknowledgments:
    @pytest.mark.parametrize("sender", [FROM_CLIENT, FROM_BROKER], ids=["client", "broker"])
    def test_one_far_beyond_what_was_captured_is_no_evidence_of_loss(self, sender: Packet) -> None:
        records, tracker = inserted(like(sender, flags=ACK, acknowledgment=FAR))
        assert said(records) == said(records_of(PACKETS))
        assert tracker.ledger.contradictions == {Contradiction.ACKNOWLEDGMENT: 1}
        assert tracker.ledger.lost == 0

    @pytest.mark.parametrize("ahead", [1, 40, 10_000, MAX_AHEAD])
    @pytest.mark.parametrize("sender", [FROM_CLIENT, FROM_BROKER], ids=["client", "broker"])
    @pytest.mark.parametrize("times", [1, 3])
    @pytest.mark.parametrize("delay", [0, 30 * SECOND])
    def test_one_of_bytes_that_are_never_sent_hides_one_exchange(
        self, ahead: int, sender: Packet, times: int, delay: int
    ) -> None:
        """What is not read are the requests and responses until the real receiver acknowledges less."""
        forged = [like(sender, flags=ACK, acknowledgment=each * ahead) for each in range(1, times + 1)]
        sent = packets_of(exchanges(20), sequences=(5_000, 9_000))
        forged = [
            each._replace(captured_at=each.captured_at + number * min(2 * MAX_WAIT, delay))
            for number, each in enumerate(forged)
        ]
        later = [each._replace(captured_at=each.captured_at + delay) for each in sent[AT:]]
        packets = [*sent[:AT], *forged, *later]
        records = assert_equal(placed(packets))
        assert_equal(placed(packets), range(len(packets)))
        frames = [each.frame for each in of_kind(records, Kind.REQUEST)]
        missing = [number for number in range(1, 21) if metadata(number) not in frames]
        assert len(missing) <= 2
        paired = {each.frame for each in of_kind(records, Kind.RESPONSE) if each.pairing is Pairing.MATCHED}
        assert len([number for number in range(1, 21) if metadata_response(number) not in paired]) <= 3
        assert of_kind(records, Kind.CLOSED)[-1].closing is Closing.FIN

    def test_one_of_bytes_before_a_forged_fin_closes_nothing(self) -> None:
        fin = like(FROM_BROKER, flags=FIN | ACK, sequence=500, acknowledgment=-len(prefixed(metadata(2))))
        forged = like(FROM_CLIENT, flags=ACK, acknowledgment=501)
        sent = packets_of(exchanges(20), sequences=(5_000, 9_000))
        records = assert_equal(placed([*sent[:AT], fin, forged, *sent[AT:]]))
        (closed,) = of_kind(records, Kind.CLOSED)
        assert (closed.closing, closed.direction) == (Closing.FIN, TO_BROKER)
        assert metadata(19) in [each.frame for each in of_kind(records, Kind.REQUEST)]

    def test_lost_bytes_stay_lost_if_their_sender_goes_on_behind_them(self) -> None:
        lossy = placed([*PACKETS[:AT], *PACKETS[AT + 1 :]])
        tracker = new_tracker()
        feed_all(tracker, lossy)
        assert tracker.ledger.lost == len(prefixed(metadata(2)))
        assert not tracker.ledger.contradictions
        assert_equal(lossy)

    def test_a_keep_alive_after_a_loss_is_no_new_byte(self) -> None:
        at = AT + 2
        alive = like(PACKETS[at], sequence=-1, payload=b"\0", flags=ACK, earlier=1)
        lossy = placed([*PACKETS[:AT], PACKETS[AT + 1], alive, *PACKETS[at:]])
        tracker = new_tracker()
        records = feed_all(tracker, lossy)
        assert not tracker.ledger.contradictions
        assert metadata(4) in [each.frame for each in records]
        assert_equal(lossy, range(len(lossy)))


class TestAhead:
    """Bytes ahead of those that come next. PACKETS are a second apart, 40 of them in all."""

    PACKETS = packets_of(exchanges(20), sequences=(5_000, 9_000))
    REQUEST = prefixed(metadata(9))

    @pytest.mark.parametrize("ahead", [2_000, FAR, (1 << 31) - 100])
    @pytest.mark.parametrize("sender", [FROM_CLIENT, FROM_BROKER], ids=["client", "broker"])
    def test_those_of_which_their_receiver_acknowledges_less_are_dropped(
        self, ahead: int, sender: Packet
    ) -> None:
        forged = like(sender, flags=ACK, sequence=ahead, payload=self.REQUEST)
        records, tracker = followed([*self.PACKETS[:AT], forged, *self.PACKETS[AT:-3]])
        assert said(records) == said(records_of(self.PACKETS[:-3]))
        assert tracker.ledger.contradictions == {Contradiction.SEQUENCE: 1}

    def test_they_keep_no_connection_on_the_slow_path(self, slow_path: list[Segment]) -> None:
        forged = [like(FROM_CLIENT, flags=ACK, sequence=FAR + 9 * at, payload=b"x") for at in range(10)]
        tracker = new_columnar_tracker()
        tracker.feed(PacketBatch.of([*self.PACKETS[:AT], *forged, *self.PACKETS[AT:-3]]))
        # The forged ones, and the acknowledgment that drops them.
        assert len(slow_path) == len(forged) + 1

    @pytest.mark.parametrize("late", [0, 9])
    def test_bytes_that_were_lost_on_the_way_and_sent_again_are_read(self, late: int) -> None:
        first, answer, second = self.PACKETS[AT], self.PACKETS[AT + 1], self.PACKETS[AT + 2]
        unsent = -len(prefixed(metadata_response(2)))
        ahead = like(second, flags=ACK, acknowledgment=unsent, payload=payload_of(second))
        ahead = ahead._replace(captured_at=first.captured_at)
        sent_again = first._replace(captured_at=first.captured_at + late * SECOND)
        asked = like(answer, flags=ACK, acknowledgment=-len(prefixed(metadata(2))))
        records, tracker = followed([*self.PACKETS[:AT], ahead, asked, sent_again])
        assert [each.frame for each in of_kind(records, Kind.REQUEST)][-2:] == [metadata(2), metadata(3)]
        assert not tracker.ledger.contradictions

    def test_where_no_acknowledgment_follows_those_far_ahead_are_dropped(self) -> None:
        forged = like(FROM_CLIENT, flags=ACK, sequence=FAR, payload=self.REQUEST)
        records, tracker = followed([*self.PACKETS[:AT], forged])
        assert said(records) == said(records_of(self.PACKETS[:AT]))
        assert tracker.ledger.contradictions == {Contradiction.SEQUENCE: 1}

    @pytest.mark.parametrize("ahead", [500, 10_000, FAR])
    def test_those_that_seem_acknowledged_hide_few_exchanges(self, ahead: int) -> None:
        """Somebody sends bytes of the client and an acknowledgment of the broker for them."""
        end = ahead + len(self.REQUEST)
        sent = [
            like(FROM_CLIENT, flags=ACK, sequence=ahead, payload=self.REQUEST),
            like(FROM_BROKER, flags=ACK, acknowledgment=end - len(prefixed(metadata(2)))),
        ]
        records, tracker = followed([*self.PACKETS[:AT], *sent, *self.PACKETS[AT:]])
        found = {each.frame for each in of_kind(records, Kind.REQUEST)}
        assert len([number for number in range(1, 21) if metadata(number) not in found]) <= 3
        assert tracker.ledger.contradictions[Contradiction.ACKNOWLEDGMENT] == 1

    def test_after_a_great_loss_the_connection_is_read(self) -> None:
        """More is lost than may be ahead; the broker acknowledges what was captured behind it."""
        lost = MAX_AHEAD + 1_000
        later = [
            like(each, flags=ACK, payload=payload_of(each), **{field: lost})
            for each, field in zip(self.PACKETS[AT:-3], ["sequence", "acknowledgment"] * 20, strict=False)
        ]
        records, tracker = followed([*self.PACKETS[:AT], *later])
        assert metadata(19) in [each.frame for each in of_kind(records, Kind.REQUEST)]
        assert tracker.ledger.lost == lost

    @pytest.mark.parametrize("sender", [FROM_CLIENT, FROM_BROKER], ids=["client", "broker"])
    def test_a_reset_before_them_shows_that_nobody_has_them(self, sender: Packet) -> None:
        forged = like(FROM_CLIENT, flags=ACK, sequence=500, payload=self.REQUEST)
        unsent = 0 if sender is FROM_CLIENT else -len(prefixed(metadata(2)))
        reset = like(sender, flags=RST | ACK, acknowledgment=unsent)
        records, tracker = followed([*self.PACKETS[:AT], forged, reset])
        assert said(records)[:-1] == said(records_of(self.PACKETS[:AT]))[: len(records) - 1]
        assert of_kind(records, Kind.CLOSED)[-1].closing is Closing.RST
        assert tracker.ledger.contradictions == {Contradiction.SEQUENCE: 1}

    def test_bytes_at_the_number_of_a_reset_count_as_behind_it(self) -> None:
        forged = like(FROM_CLIENT, flags=ACK, sequence=500, payload=self.REQUEST)
        reset = like(FROM_CLIENT, flags=RST, sequence=500)
        records, tracker = followed([*self.PACKETS[:AT], forged, reset])
        assert of_kind(records, Kind.REQUEST)[-1].frame == metadata(1)
        assert tracker.ledger.contradictions == {Contradiction.SEQUENCE: 1}


class TestClose:
    """Packets at the very number that is expected, as the offender itself can send them."""

    def rest(self, *forged: Packet, delay: int = 0) -> list[Record]:
        """Return the requests that are found behind forged packets."""
        later = [each._replace(captured_at=each.captured_at + delay) for each in PACKETS[AT:]]
        packets = placed([*PACKETS[:AT], *forged, *later])
        records = assert_equal(packets, range(len(packets)))
        assert of_kind(records, Kind.OPENED)[-1].flags is Flag.MID_STREAM
        tracker = new_tracker()
        feed_all(tracker, packets)
        assert tracker.ledger.contradictions == {Contradiction.CLOSE: 1}
        return [
            each for each in of_kind(records, Kind.REQUEST) if each.captured_at >= PACKETS[AT].captured_at
        ]

    @pytest.mark.parametrize("delay", [0, 30 * SECOND])
    def test_who_resets_its_own_connection_and_goes_on_is_read(self, delay: int) -> None:
        requests = self.rest(like(FROM_CLIENT, flags=RST | ACK), delay=delay)
        assert [each.frame for each in requests] == [metadata(2), metadata(3), metadata(4)]

    def test_a_client_that_goes_on_although_the_broker_seems_to_have_reset_is_read(self) -> None:
        unsent = -len(prefixed(metadata(2)))
        requests = self.rest(like(FROM_BROKER, flags=RST | ACK, acknowledgment=unsent))
        assert [each.frame for each in requests] == [metadata(3), metadata(4)]

    def test_both_sides_seem_to_have_finished(self) -> None:
        unsent = -len(prefixed(metadata(2)))
        fins = (
            like(FROM_CLIENT, flags=FIN | ACK),
            like(FROM_BROKER, flags=FIN | ACK, acknowledgment=unsent + 1),
        )
        assert [each.frame for each in self.rest(*fins)] == [metadata(2), metadata(3), metadata(4)]

    def test_a_connection_that_seems_refused_is_read_from_its_start(self) -> None:
        records, tracker = inserted(like(PACKETS[1], flags=RST | ACK, sequence=-9_000), at=1)
        assert said(records)[2:] == said(records_of(PACKETS))
        assert tracker.ledger.contradictions == {Contradiction.CLOSE: 1}

    @pytest.mark.parametrize("late", [0, MAX_WAIT])
    def test_what_crosses_a_reset_joins_nothing(self, late: int) -> None:
        reset = like(FROM_CLIENT, sequence=len(prefixed(metadata(2))), flags=RST | ACK)
        crossing = FROM_BROKER._replace(captured_at=reset.captured_at + late)
        packets = placed([*PACKETS[: AT + 1], reset, crossing, crossing, reset])
        assert len(of_kind(assert_equal(packets), Kind.OPENED)) == 1

    def test_what_is_sent_again_after_the_end_joins_nothing(self) -> None:
        packets = placed([*PACKETS, *PACKETS[HANDSHAKE:]])
        assert len(of_kind(assert_equal(packets), Kind.OPENED)) == 1

    def test_a_refused_client_that_asks_again_opens_nothing(self) -> None:
        refusal = like(PACKETS[1], flags=RST | ACK, sequence=-9_000)
        packets = placed([PACKETS[0], refusal] * 3)
        assert len(of_kind(assert_equal(packets), Kind.OPENED)) == 1


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


forgeries = st.lists(
    st.tuples(
        st.integers(0, len(PACKETS)),
        st.integers(0, len(PACKETS) - 1),
        st.sampled_from([ACK, RST, RST | ACK, FIN | ACK, SYN, SYN | ACK]),
        st.sampled_from([0, -1, 1, 40, -40, MAX_AHEAD, MAX_AHEAD + 1, -FAR, FAR]),
        st.sampled_from([0, 1, -1, 40, MAX_AHEAD, FAR]),
        st.sampled_from([b"", b"x", prefixed(metadata(9))]),
    ),
    max_size=6,
)


@given(forgeries, st.lists(st.integers(0, 100), max_size=4), st.sampled_from([1, 20, 1000, 4000]))
@examples(300)
def test_both_trackers_judge_forged_packets_alike(
    forged: list[tuple[int, int, int, int, int, bytes]], cuts: list[int], interval: int
) -> None:
    packets = packets_of(exchanges(4), sequences=(5_000, 9_000), interval=interval * SECOND // 1000)
    made = [
        (at, like(packets[of], flags=flags, sequence=ahead, acknowledgment=more, payload=payload))
        for at, of, flags, ahead, more, payload in forged
    ]
    for at, packet in sorted(made, key=lambda each: each[0], reverse=True):
        packets.insert(at, packet._replace(captured_at=packets[min(at, len(packets) - 1)].captured_at))
    assert_equal(placed(packets), cuts)


@pytest.mark.parametrize("flags", [TcpFlag.PSH, TcpFlag.PSH | ACK], ids=["without-ack", "impossible-ack"])
@pytest.mark.parametrize("acknowledgment", [MAX_AHEAD + 1, FAR, -FAR])
@pytest.mark.parametrize("snap_length", [0, 20])
def test_bytes_that_their_receiver_drops_are_not_read(
    flags: int, acknowledgment: int, snap_length: int
) -> None:
    """A decoy of the request that comes next: the same place, and an acknowledgment that nobody takes."""
    payload = prefixed(metadata(7))
    decoy = like(FROM_CLIENT, flags=flags, acknowledgment=acknowledgment, payload=payload)
    decoy = decoy._replace(data=decoy.data[: len(decoy.data) - len(payload) + snap_length])
    records, tracker = inserted(decoy)
    assert said(records) == said(records_of(PACKETS))
    assert tracker.ledger.contradictions[Contradiction.ACKNOWLEDGMENT] == 1


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
