"""Forged bytes and acknowledgments hide few exchanges, and nothing that both sides know to be sent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.frame.record import Closing, Kind, Pairing
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.ledger import Contradiction
from decoders.wire.segment import Packet, Segment, TcpFlag
from decoders.wire.stream import MAX_AHEAD
from decoders.wire.waiting import MAX_WAIT
from tests.decoders.wire.columnar.equality import assert_equal, placed
from tests.decoders.wire.columnar.forging import (
    ACK,
    AT,
    FAR,
    FIN,
    FROM_BROKER,
    FROM_CLIENT,
    PACKETS,
    RST,
    SYN,
    followed,
    inserted,
    like,
    payload_of,
    said,
)
from tests.decoders.wire.conversation import (
    SECOND,
    TO_BROKER,
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


@pytest.mark.parametrize("flags", [ACK, FIN | ACK], ids=["ack", "fin"])
@pytest.mark.parametrize("sender", [FROM_CLIENT, FROM_BROKER], ids=["client", "broker"])
def test_a_packet_that_claims_more_bytes_than_it_has_hides_nothing(sender: Packet, flags: int) -> None:
    """It would hide as much as an IP length can say: what is sent there is no new byte."""
    forged = like(sender, flags=flags)
    forged = forged._replace(data=forged.data[:16] + b"\xff\xff" + forged.data[18:])
    records, tracker = inserted(forged)
    assert said(records) == said(records_of(PACKETS))
    assert tracker.ledger.lost == 0


@pytest.mark.parametrize("by_mirror", [False, True], ids=["by the snap length", "by a mirror"])
@pytest.mark.parametrize("length", [54, 60])
def test_bytes_of_a_shortened_packet_are_lost(length: int, by_mirror: bool) -> None:
    """The one who captures knows how long the packet was. A mirror does not say; the acknowledgment does."""
    cut = PACKETS[AT]._replace(data=PACKETS[AT].data[:length])
    if by_mirror:
        cut = cut._replace(original_length=length)
    _, tracker = followed([*PACKETS[:AT], cut, *PACKETS[AT + 1 :]])
    assert tracker.ledger.lost == len(PACKETS[AT].data) - length
    assert not tracker.ledger.contradictions


forgeries = st.lists(
    st.tuples(
        st.integers(0, len(PACKETS)),
        st.integers(0, len(PACKETS) - 1),
        st.sampled_from([ACK, RST, RST | ACK, FIN | ACK, SYN, SYN | ACK]),
        st.sampled_from([0, -1, 1, 40, -40, MAX_AHEAD, MAX_AHEAD + 1, -FAR, FAR]),
        st.sampled_from([0, 1, -1, 40, MAX_AHEAD, FAR, -FAR]),
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
