"""A forged RST or FIN ends nothing; one at the expected number, as its sender can forge it, hides nothing."""

from __future__ import annotations

import pytest

from decoders.frame.record import Closing, Flag, Kind, Record
from decoders.wire.ledger import Contradiction
from decoders.wire.segment import Packet, SocketAddress
from decoders.wire.stream import MAX_AHEAD
from decoders.wire.synthesis import SyntheticConnection
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
    followed,
    inserted,
    like,
    said,
)
from tests.decoders.wire.conversation import (
    CLIENT,
    HANDSHAKE,
    SECOND,
    SERVER,
    TO_BROKER,
    TO_CLIENT,
    feed_all,
    metadata,
    new_tracker,
    of_kind,
    prefixed,
    records_of,
)


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


def test_the_acknowledgment_of_a_fin_that_is_withdrawn_is_of_no_byte() -> None:
    """The one that withdraws it is cut before the bytes that it has behind the FIN."""
    fin, answer = PACKETS[-2], like(PACKETS[-1], flags=ACK)
    beyond = like(fin, flags=ACK, sequence=-40, payload=bytes(60))
    beyond = beyond._replace(data=beyond.data[:-30])
    _, tracker = followed([*PACKETS[:-1], answer, beyond])
    assert tracker.ledger.contradictions == {Contradiction.FIN: 1}
    assert tracker.ledger.lost == 0


@pytest.mark.parametrize("flags", [FIN | ACK, RST | ACK], ids=["fin", "rst"])
@pytest.mark.parametrize("at", [len(PACKETS) - 2, len(PACKETS) - 1], ids=["first", "last"])
@pytest.mark.parametrize(("acknowledgment", "is_possible"), [(-FAR, False), (FAR, False), (-40, True)])
def test_an_impossible_acknowledgment_of_a_closing_segment_is_counted(
    flags: int, at: int, acknowledgment: int, is_possible: bool
) -> None:
    """Also where nothing else is left to process. One that was captured late is possible."""
    closing = like(PACKETS[at], flags=flags, acknowledgment=acknowledgment)
    _, tracker = followed([*PACKETS[:at], closing, *PACKETS[at + 1 :]])
    contradicted = tracker.ledger.contradictions[Contradiction.ACKNOWLEDGMENT]
    assert contradicted == (0 if is_possible or flags & RST else 1)


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
