"""One direction of a TCP connection: segments in, bytes in order out, and gaps of known size.

Places in the stream are counted without wrapping: offset 0 is the first byte after the SYN, or the
first byte seen where the SYN was not. Of bytes that were sent twice the first captured win
(RFC 9293 section 3.10.7.4 lets a receiver trim what it has). Where the first still wait and the
others differ, the ledger says so; what was passed on is not kept to compare, and a keep-alive may
carry any byte in place of the last one.

A hole is waited for while its bytes may still come. It becomes a gap when the other side
acknowledges beyond it, which shows that they passed and were not captured, or when too much is held
behind it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from decoders.wire.ledger import Ledger, Reason
from decoders.wire.segment import Segment, TcpFlag

MAX_HELD = 4 * 1024 * 1024
"""How much may wait behind a hole, in bytes; each held piece is charged for its own size as well."""
SEQUENCE_SPACE = 1 << 32
PIECE_COST = 256
"""What a piece that waits takes besides its bytes, roughly."""


class Chunk(NamedTuple):
    """Bytes of the stream in order, all from one segment.

    `starts_segment` tells whether they begin where their segment's payload begins: a sender often
    starts a frame there. `acknowledgment` is the 32-bit number in that segment's header.
    """

    offset: int
    payload: bytes
    captured_at: int
    position: int
    acknowledgment: int
    starts_segment: bool

    @property
    def end(self) -> int:
        """The offset behind the last byte."""
        return self.offset + len(self.payload)

    def part(self, start: int, end: int) -> Chunk:
        """Give the bytes between two offsets of the stream that lie within this chunk."""
        payload = self.payload[start - self.offset : end - self.offset]
        starts_segment = self.starts_segment and start == self.offset
        return self._replace(offset=start, payload=payload, starts_segment=starts_segment)


class Gap(NamedTuple):
    """Bytes of the stream that were not captured.

    `captured_at` and `position` are those of the packet that showed it.
    """

    offset: int
    size: int
    captured_at: int
    position: int


class Place(NamedTuple):
    """The offset of the next byte, and its 32-bit sequence number."""

    offset: int
    sequence: int


class Stream:
    """Puts one direction in order. `initial` is the sequence number of its first byte."""

    def __init__(self, ledger: Ledger, initial: int) -> None:
        self._ledger = ledger
        self._next = 0
        self._next_sequence = initial
        self._held: list[Chunk] = []
        self._held_cost = 0
        self._end: int | None = None

    def offset_of(self, sequence: int) -> int:
        """Place a 32-bit sequence or acknowledgment number: it lies within 2 GiB of the last byte."""
        distance = (sequence - self._next_sequence) % SEQUENCE_SPACE
        return self._next + distance - (SEQUENCE_SPACE if distance >= SEQUENCE_SPACE // 2 else 0)

    @property
    def held(self) -> int:
        """How much memory waits behind a hole, in bytes, each piece charged for its own size as well."""
        return self._held_cost

    @property
    def is_in_order(self) -> bool:
        """Whether nothing is held and no end is known: then its place is all that it holds."""
        return not self._held and self._end is None

    def snapshot(self) -> Place:
        """Give the place of a stream that is in order."""
        return Place(self._next, self._next_sequence)

    def restore(self, place: Place) -> None:
        """Go on from a place."""
        self._next, self._next_sequence = place

    @property
    def is_finished(self) -> bool:
        """Whether the sender has closed this direction and everything before that was passed on."""
        return self._end is not None and self._next >= self._end

    def push(self, segment: Segment) -> Iterator[Chunk | Gap]:
        """Take a segment in, and give what is in order now."""
        start = self.offset_of(segment.sequence) + bool(segment.flags & TcpFlag.SYN)
        chunk = Chunk(
            start, segment.payload, segment.captured_at, segment.position, segment.acknowledgment, True
        )
        end = chunk.end + segment.missing
        if segment.flags & TcpFlag.FIN and self._end is None:
            self._end = end
        self._hold(chunk)
        yield from self._release()
        if self._next == chunk.end:
            yield from self._give_up(end, segment.captured_at, segment.position)
        while self._held_cost > MAX_HELD:
            yield from self._give_up(self._held[0].offset, segment.captured_at, segment.position)

    def acknowledge(self, number: int, captured_at: int, position: int) -> Iterator[Chunk | Gap]:
        """Hear that the receiver has everything before a 32-bit sequence number."""
        reached = self.offset_of(number)
        # A FIN takes a sequence number but is no byte of the stream.
        if self._end is not None:
            reached = min(reached, self._end)
        yield from self._give_up(reached, captured_at, position)

    def close(self, captured_at: int, position: int) -> Iterator[Chunk | Gap]:
        """Wait for nothing more: give what is held, with the gaps between."""
        if self._held:
            yield from self._give_up(self._held[-1].end, captured_at, position)

    def _give_up(self, end: int, captured_at: int, position: int) -> Iterator[Chunk | Gap]:
        """Wait no longer for what is missing before an offset."""
        while self._next < end:
            start, stop = self._next, min(end, self._held[0].offset) if self._held else end
            self._ledger.lose(stop - start)
            self._advance(stop)
            yield Gap(start, stop - start, captured_at, position)
            yield from self._release()

    def _release(self) -> Iterator[Chunk]:
        while self._held and self._held[0].offset == self._next:
            chunk = self._held.pop(0)
            self._held_cost -= len(chunk.payload) + PIECE_COST
            self._advance(chunk.end)
            yield chunk

    def _advance(self, offset: int) -> None:
        self._next_sequence = (self._next_sequence + offset - self._next) % SEQUENCE_SPACE
        self._next = offset

    def _hold(self, chunk: Chunk) -> None:
        """Keep those parts of a chunk that are neither passed nor held already."""
        kept = conflicting = 0
        at = max(chunk.offset, self._next)
        index = bisect_right(self._held, at, key=lambda held: held.end)
        while at < chunk.end:
            following = self._held[index] if index < len(self._held) else None
            end = min(chunk.end, following.offset) if following else chunk.end
            if at < end:
                self._held.insert(index, chunk.part(at, end))
                self._held_cost += end - at + PIECE_COST
                kept += end - at
                index += 1
            if following:
                conflicting += _contradicted(chunk, following)
            at = following.end if following else end
            index += 1
        self._ledger.skip(Reason.CONFLICTING, conflicting)
        self._ledger.skip(Reason.DUPLICATE, len(chunk.payload) - kept - conflicting)


def _contradicted(chunk: Chunk, held: Chunk) -> int:
    """Give the size of two chunks' overlap if their bytes differ there, else 0."""
    start, end = max(chunk.offset, held.offset), min(chunk.end, held.end)
    if end <= start or chunk.part(start, end).payload == held.part(start, end).payload:
        return 0
    return end - start
