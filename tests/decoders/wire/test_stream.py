"""One direction of TCP: order, overlap, wraparound, gaps."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from decoders.wire.chunk import Chunk, Gap
from decoders.wire.ledger import Contradiction, Ledger, SkipReason
from decoders.wire.segment import Segment, TcpFlag
from decoders.wire.stream import Stream
from tests.decoders.wire.conversation import CLIENT, SERVER


def segment(
    sequence: int, payload: bytes, *, missing: int = 0, flags: int = TcpFlag.ACK, at: int = 0
) -> Segment:
    return Segment(CLIENT, SERVER, sequence % (1 << 32), 0, flags, payload, missing, at, at)


def bytes_and_gaps(events: Iterable[Chunk | Gap]) -> list[bytes | int]:
    return [event.payload if isinstance(event, Chunk) else event.size for event in events]


def push(stream: Stream, pushed: Segment) -> list[Chunk | Gap]:
    return [*stream.push(pushed), *stream.release()]


def acknowledge(stream: Stream, number: int) -> list[Chunk | Gap]:
    """Acknowledge, and wait for nothing."""
    stream.acknowledge(number, 0)
    return give_up(stream)


def give_up(stream: Stream, *, everything: bool = False) -> list[Chunk | Gap]:
    """Turn holes into gaps: those that are acknowledged, or everything before the last held byte."""
    events: list[Chunk | Gap] = []
    while stream.has_lost_bytes or (everything and stream.held):
        end = stream.first_held if everything else stream.awaited_end
        events += [*stream.give_up(end, 0, 0), *stream.release()]
    return events


def test_segments_out_of_order_come_out_in_order() -> None:
    stream = Stream(Ledger(), 100)
    assert bytes_and_gaps(push(stream, segment(103, b"def"))) == []
    assert bytes_and_gaps(push(stream, segment(100, b"abc"))) == [b"abc", b"def"]


def test_a_chunk_has_the_fields_of_its_segment() -> None:
    stream = Stream(Ledger(), 100)
    push(stream, segment(102, b"cd", at=5))
    first, second = push(stream, segment(100, b"ab", at=9))
    assert (first.offset, first.captured_at, first.position) == (0, 9, 9)
    assert (second.offset, second.captured_at, second.position) == (2, 5, 5)


def test_of_bytes_sent_twice_with_other_content_none_are_used() -> None:
    ledger = Ledger()
    stream = Stream(ledger, 0)
    assert bytes_and_gaps(push(stream, segment(2, b"CD"))) == []
    assert bytes_and_gaps(push(stream, segment(0, b"abcdef"))) == [b"ab", 2, b"ef"]
    assert ledger.skipped == {SkipReason.CONFLICTING: 4}
    assert ledger.contradictions == {Contradiction.CONTENT: 1}


def test_only_the_overlap_that_differs_conflicts() -> None:
    ledger = Ledger()
    stream = Stream(ledger, 0)
    push(stream, segment(1, b"bc"))
    push(stream, segment(4, b"efgh"))
    assert bytes_and_gaps(push(stream, segment(0, b"abcdXX"))) == [b"a", b"bc", b"d", 2, b"gh"]
    assert ledger.skipped == {SkipReason.DUPLICATE: 2, SkipReason.CONFLICTING: 4}
    assert stream.held == 0


def test_bytes_in_dispute_stay_so_whatever_comes_again() -> None:
    ledger = Ledger()
    stream = Stream(ledger, 0)
    for payload in (b"efgh", b"eXgh", b"efgh"):
        assert bytes_and_gaps(push(stream, segment(4, payload))) == []
    assert bytes_and_gaps(push(stream, segment(0, b"abcd"))) == [b"abcd", 4]
    assert stream.held == 0


def test_bytes_that_are_sent_again_as_they_were_are_used() -> None:
    ledger = Ledger()
    stream = Stream(ledger, 0)
    for start, payload in ((4, b"efgh"), (6, b"gh"), (3, b"defg"), (0, b"abc")):
        last = push(stream, segment(start, payload))
    assert bytes_and_gaps(last) == [b"abc", b"d", b"efgh"]
    assert not ledger.contradictions


def test_only_bytes_at_the_start_of_a_payload_start_a_segment() -> None:
    stream = Stream(Ledger(), 0)
    push(stream, segment(0, b"ab"))
    (rest,) = push(stream, segment(0, b"abcd"))
    assert isinstance(rest, Chunk)
    assert (rest.payload, rest.starts_segment) == (b"cd", False)


def test_keep_alives_and_retransmissions_yield_nothing() -> None:
    stream = Stream(Ledger(), 0)
    push(stream, segment(0, b"abc"))
    assert bytes_and_gaps(push(stream, segment(2, b"c"))) == []
    assert bytes_and_gaps(push(stream, segment(2, b""))) == []
    assert bytes_and_gaps(push(stream, segment(0, b"abc"))) == []


def test_sequence_numbers_wrap() -> None:
    stream = Stream(Ledger(), (1 << 32) - 2)
    assert bytes_and_gaps(push(stream, segment(2, b"ef"))) == []
    assert bytes_and_gaps(push(stream, segment(-2, b"abcd"))) == [b"abcd", b"ef"]
    assert stream.offset_of(4) == 6


def test_a_hole_that_was_acknowledged_is_a_gap_of_known_size() -> None:
    ledger = Ledger()
    stream = Stream(ledger, 0)
    push(stream, segment(4, b"ef"))
    assert bytes_and_gaps(acknowledge(stream, 4)) == [4, b"ef"]
    assert bytes_and_gaps(acknowledge(stream, 9)) == [3]
    assert ledger.lost == 7


def test_a_hole_that_is_not_acknowledged_stays_a_hole() -> None:
    stream = Stream(Ledger(), 0)
    push(stream, segment(4, b"ef"))
    assert bytes_and_gaps(acknowledge(stream, 0)) == []
    assert bytes_and_gaps(push(stream, segment(0, b"abcd"))) == [b"abcd", b"ef"]


def test_the_acknowledgment_of_a_fin_is_no_lost_byte() -> None:
    stream = Stream(Ledger(), 0)
    push(stream, segment(0, b"ab", flags=TcpFlag.FIN))
    assert stream.is_finished
    assert bytes_and_gaps(acknowledge(stream, 3)) == []


def test_a_fin_behind_a_hole_finishes_only_when_the_hole_is_filled() -> None:
    stream = Stream(Ledger(), 0)
    push(stream, segment(2, b"", flags=TcpFlag.FIN))
    assert not stream.is_finished
    push(stream, segment(0, b"ab"))
    assert stream.is_finished


def test_bytes_that_the_snap_length_cut_off_are_a_gap_at_once() -> None:
    stream = Stream(Ledger(), 0)
    assert bytes_and_gaps(push(stream, segment(0, b"ab", missing=3))) == [b"ab", 3]
    assert bytes_and_gaps(push(stream, segment(5, b"fg"))) == [b"fg"]


def test_closing_yields_all_held_bytes() -> None:
    stream = Stream(Ledger(), 0)
    push(stream, segment(2, b"c"))
    push(stream, segment(5, b"f"))
    assert bytes_and_gaps(give_up(stream, everything=True)) == [2, b"c", 2, b"f"]


@given(
    st.binary(min_size=1, max_size=60),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=30),
    st.integers(0, (1 << 32) - 1),
)
def test_any_segments_yield_the_true_bytes_and_the_ledger_balances(
    data: bytes, cuts: list[tuple[int, int]], initial: int
) -> None:
    ledger = Ledger()
    stream = Stream(ledger, initial)
    restored = 0
    events: list[Chunk | Gap] = []
    for start, size in cuts:
        piece = data[start : start + size]
        ledger.capture(len(piece))
        events += push(stream, segment(initial + start, piece))
    events += give_up(stream, everything=True)
    for event in events:
        assert event.offset == restored
        if isinstance(event, Chunk):
            assert event.payload == data[event.offset : event.end]
        restored += len(event.payload) if isinstance(event, Chunk) else event.size
    given_out = sum(len(event.payload) for event in events if isinstance(event, Chunk))
    assert ledger.captured == given_out + ledger.skipped.total()
