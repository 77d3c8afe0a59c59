"""Frames of one direction: chunks of any size, holes in and between frames, boundaries lost and found."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.wire.chunk import Chunk, Gap
from decoders.wire.framing import (
    MAX_FRAME,
    OPENING_SIZE,
    Frame,
    Framed,
    Framer,
    FramerState,
    InvalidSize,
    NoRequest,
)
from decoders.wire.ledger import Ledger, SkipReason
from tests.decoders.wire.conversation import prefixed


def is_word(data: bytes | bytearray, missing: int = 0) -> bool | None:
    """Detects a frame of letters, complete or without its end."""
    if missing:
        return len(data) + missing == 4 + int.from_bytes(data[:4], signed=True) and data[4:].isalpha()
    if len(data) < 5:
        return None
    size = int.from_bytes(data[:4], signed=True)
    if not 0 < size < 100:
        return False
    return data[4 : 4 + size].isalpha() if len(data) >= 4 + size else None


def framer(state: FramerState = FramerState.SYNCHRONISED) -> tuple[Framer, Ledger]:
    ledger = Ledger()
    return Framer(ledger, state, opens=is_word, resumes=is_word, is_other_protocol=lambda _: False), ledger


class Feed:
    """Pushes bytes and gaps, each chunk a segment captured a nanosecond after the one before."""

    def __init__(self, state: FramerState = FramerState.SYNCHRONISED) -> None:
        self.framer, self.ledger = framer(state)
        self.offset = 0
        self.at = 0

    def push(self, data: bytes, *, starts_segment: bool = True) -> list[Framed]:
        self.ledger.capture(len(data))
        chunk = Chunk(self.offset, data, self.at, self.at, self.at, starts_segment)
        self.offset += len(data)
        self.at += 1
        return list(self.framer.push(chunk))

    def skip(self, size: int) -> list[Framed]:
        gap = Gap(self.offset, size, self.at, self.at)
        self.offset += size
        return list(self.framer.skip(gap))


def summary(results: Iterable[Framed]) -> list[tuple[bytes, int] | int]:
    return [
        (result.payload, result.true_length) if isinstance(result, Frame) else result.size
        for result in results
        if not isinstance(result, NoRequest)
    ]


def test_one_chunk_may_hold_many_frames() -> None:
    feed = Feed()
    assert summary(feed.push(prefixed(b"one") + prefixed(b"") + prefixed(b"three"))) == [
        (b"one", 3),
        (b"", 0),
        (b"three", 5),
    ]


def test_a_frame_has_the_time_of_its_first_segment_and_its_end() -> None:
    feed = Feed()
    data = prefixed(b"word")
    feed.push(data[:2])
    feed.push(data[2:6])
    (frame,) = feed.push(data[6:])
    assert isinstance(frame, Frame)
    assert (frame.captured_at, frame.position, frame.acknowledgment) == (0, 0, 0)
    assert (frame.completed_at, frame.end) == (2, 8)


@given(st.lists(st.binary(max_size=30), max_size=6), st.lists(st.integers(1, 9), max_size=60))
def test_chunks_of_any_size_make_the_same_frames(frames: list[bytes], sizes: list[int]) -> None:
    data, feed, results = b"".join(map(prefixed, frames)), Feed(), []
    for size in [*sizes, len(data)]:
        results += feed.push(data[:size]) if data else []
        data = data[size:]
    assert summary(results) == [(frame, len(frame)) for frame in frames]
    assert feed.ledger.pending == 0


def test_a_hole_inside_a_frame_cuts_it_and_nothing_else() -> None:
    feed = Feed()
    data = prefixed(b"abcdefgh")
    feed.push(data[:6])
    assert summary(feed.skip(3)) == []
    assert summary(feed.push(data[9:] + prefixed(b"next"))) == [(b"ab", 8), (b"next", 4)]
    assert feed.ledger.skipped == {SkipReason.AFTER_HOLE: 3}


def test_a_hole_up_to_the_end_of_a_frame_keeps_the_framer_synchronised() -> None:
    feed = Feed()
    feed.push(prefixed(b"abcd")[:5])
    assert summary(feed.skip(3)) == [(b"a", 4)]
    assert summary(feed.push(prefixed(b"next"))) == [(b"next", 4)]


def test_a_hole_beyond_a_frame_yields_the_frame_and_loses_the_boundary() -> None:
    feed = Feed()
    feed.push(prefixed(b"abcd")[:5])
    assert summary(feed.skip(4)) == [(b"a", 4), 4]
    assert feed.framer.state is FramerState.SEEKING


@pytest.mark.parametrize("before", [0, 2], ids=["between frames", "inside a length prefix"])
def test_after_a_lost_boundary_a_frame_is_accepted_only_at_a_segment_start(before: int) -> None:
    feed = Feed()
    feed.push(prefixed(b"lost")[:before])
    assert summary(feed.skip(9)) == [9]
    assert summary(feed.push(prefixed(b"trap"), starts_segment=False)) == [0]
    assert summary(feed.push(b"??" + prefixed(b"trap"))) == [0]
    assert summary(feed.push(prefixed(b"word") + prefixed(b"42"))) == [(b"word", 4), (b"42", 2)]
    assert feed.ledger.skipped == {SkipReason.UNSYNCHRONISED: before + 8 + 10}


def test_a_candidate_may_need_several_chunks_and_be_rejected_late() -> None:
    feed = Feed(FramerState.SEEKING)
    assert summary(feed.push(prefixed(b"abc1")[:7])) == []
    assert summary(feed.push(b"1")) == [0]
    assert summary(feed.push(prefixed(b"word")[:6])) == [0]
    assert summary(feed.push(b"rd")) == [(b"word", 4)]


def test_a_candidate_without_its_end_is_a_frame_if_the_gap_has_the_right_size() -> None:
    feed = Feed(FramerState.SEEKING)
    feed.push(prefixed(b"word")[:6])
    assert summary(feed.skip(2)) == [(b"wo", 4)]
    assert summary(feed.push(prefixed(b"42"))) == [(b"42", 2)]


@pytest.mark.parametrize("size", [1, 3])
def test_a_gap_of_another_size_rejects_a_candidate(size: int) -> None:
    feed = Feed(FramerState.SEEKING)
    feed.push(prefixed(b"word")[:6])
    assert summary(feed.skip(size)) == [size]
    assert feed.ledger.skipped == {SkipReason.UNSYNCHRONISED: 6}


@pytest.mark.parametrize("size", [-1, MAX_FRAME + 1])
def test_an_impossible_size_loses_the_boundary(size: int) -> None:
    feed = Feed()
    feed.push(b"")
    good, invalid, loss = feed.push(prefixed(b"good") + size.to_bytes(4, signed=True) + b"rest")
    assert summary([good, loss]) == [(b"good", 4), 0]
    assert invalid == InvalidSize(size, 1, 1)
    assert feed.framer.state is FramerState.SEEKING
    assert feed.ledger.skipped == {SkipReason.UNSYNCHRONISED: 8}


@pytest.mark.parametrize("piece", [1, 100])
def test_an_implausible_opening_is_opaque_from_its_first_byte(piece: int) -> None:
    feed, hello = Feed(FramerState.OPENING), bytes.fromhex("16030100a5010000a10303")
    results = [result for at in range(0, len(hello), piece) for result in feed.push(hello[at : at + piece])]
    assert results[0] == NoRequest(hello[: 5 if piece == 1 else OPENING_SIZE], 0, 0)
    assert summary(results) == [0]
    assert summary(feed.push(prefixed(b"word"))) == []
    assert summary(feed.skip(5)) == []
    assert feed.ledger.skipped == {SkipReason.OPAQUE: len(hello) + 8}


def test_a_plausible_opening_is_synchronised() -> None:
    feed = Feed(FramerState.OPENING)
    assert summary(feed.push(prefixed(b"word") + prefixed(b"12")[:5])) == [(b"word", 4)]
    assert feed.framer.state is FramerState.SYNCHRONISED
    feed.framer.close()
    assert feed.ledger.skipped == {SkipReason.UNFINISHED: 5}
