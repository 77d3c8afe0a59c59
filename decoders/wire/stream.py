"""One direction of a TCP connection: segments in, bytes in order out, and gaps of known size.

Offsets in the stream do not wrap: offset 0 is the first byte after the SYN, or the first byte captured if the
SYN was not. If bytes were sent twice, those captured first are used (RFC 9293 section 3.10.7.4 lets a
receiver trim what it has). If the first ones are still buffered and the others differ, the ledger counts them
as conflicting. Bytes that were passed on are not kept for comparison, because a keep-alive may carry any byte
in place of the last one.

The bytes behind a hole are buffered while the missing ones may still arrive. The hole becomes a gap when the
other side acknowledges bytes behind it, which shows that the missing ones passed and were not captured, or
when too many bytes are buffered.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from decoders.wire.ledger import Ledger, SkipReason
from decoders.wire.segment import Segment, TcpFlag

MAX_HELD = 4 * 1024 * 1024
"""Bytes that may be held behind a hole, including PIECE_COST for each held chunk."""
SEQUENCE_SPACE = 1 << 32
PIECE_COST = 256
"""Bytes of memory that a held chunk takes besides its payload, roughly."""


class Chunk(NamedTuple):
    """Bytes of the stream in order, all from one segment.

    `starts_segment` is true if they begin where the segment's payload begins, as frames often do.
    `acknowledgment` is the 32-bit number in the segment's header.
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
        """Return the bytes between two offsets of the stream that are within this chunk."""
        payload = self.payload[start - self.offset : end - self.offset]
        starts_segment = self.starts_segment and start == self.offset
        return self._replace(offset=start, payload=payload, starts_segment=starts_segment)


class Gap(NamedTuple):
    """Bytes of the stream that were not captured.

    `captured_at` and `position` are those of the packet that shows that they are missing.
    """

    offset: int
    size: int
    captured_at: int
    position: int


class StreamSnapshot(NamedTuple):
    """The state of a stream that is in order: the offset of the next byte, and its 32-bit sequence number."""

    offset: int
    sequence: int


class Stream:
    """Reassembles one direction. `initial` is the sequence number of its first byte."""

    def __init__(self, ledger: Ledger, initial: int) -> None:
        self._ledger = ledger
        self._next = 0
        self._next_sequence = initial
        self._held: list[Chunk] = []
        self._held_cost = 0
        self._end: int | None = None

    @property
    def next_offset(self) -> int:
        """The offset of the next byte in order."""
        return self._next

    def offset_of(self, sequence: int) -> int:
        """Return the offset of a 32-bit sequence or acknowledgment number, within 2 GiB of the next byte."""
        distance = (sequence - self._next_sequence) % SEQUENCE_SPACE
        return self._next + distance - (SEQUENCE_SPACE if distance >= SEQUENCE_SPACE // 2 else 0)

    @property
    def held(self) -> int:
        """Bytes of memory held behind a hole, including PIECE_COST for each chunk."""
        return self._held_cost

    @property
    def is_in_order(self) -> bool:
        """Whether no chunk is held and no FIN was seen; then a snapshot is the whole state."""
        return not self._held and self._end is None

    def snapshot(self) -> StreamSnapshot:
        """Return the state of a stream that is in order."""
        return StreamSnapshot(self._next, self._next_sequence)

    def restore(self, snapshot: StreamSnapshot) -> None:
        """Continue from a snapshot."""
        self._next, self._next_sequence = snapshot

    @property
    def is_finished(self) -> bool:
        """Whether the sender has closed this direction and all bytes before its FIN were passed on."""
        return self._end is not None and self._next >= self._end

    def push(self, segment: Segment) -> Iterator[Chunk | Gap]:
        """Add a segment, and yield the chunks and gaps that are next in order."""
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
            yield from self._skip_holes(end, segment.captured_at, segment.position)
        while self._held_cost > MAX_HELD:
            yield from self._skip_holes(self._held[0].offset, segment.captured_at, segment.position)

    def acknowledge(self, number: int, captured_at: int, position: int) -> Iterator[Chunk | Gap]:
        """Process an acknowledgment: the receiver has all bytes before a 32-bit sequence number."""
        reached = self.offset_of(number)
        # A FIN has a sequence number but is no byte of the stream.
        if self._end is not None:
            reached = min(reached, self._end)
        yield from self._skip_holes(reached, captured_at, position)

    def close(self, captured_at: int, position: int) -> Iterator[Chunk | Gap]:
        """Yield the held chunks, with the gaps before them: no more segments will be captured."""
        if self._held:
            yield from self._skip_holes(self._held[-1].end, captured_at, position)

    def _skip_holes(self, end: int, captured_at: int, position: int) -> Iterator[Chunk | Gap]:
        """Turn the holes before an offset into gaps."""
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
        """Hold those parts of a chunk that have neither passed nor are held already."""
        kept = conflicting = 0
        at = max(chunk.offset, self._next)
        index = bisect_right(self._held, at, key=lambda held: held.end)
        while at < chunk.end:
            next_held = self._held[index] if index < len(self._held) else None
            end = min(chunk.end, next_held.offset) if next_held else chunk.end
            if at < end:
                self._held.insert(index, chunk.part(at, end))
                self._held_cost += end - at + PIECE_COST
                kept += end - at
                index += 1
            if next_held:
                conflicting += _conflicting_bytes(chunk, next_held)
            at = next_held.end if next_held else end
            index += 1
        self._ledger.skip(SkipReason.CONFLICTING, conflicting)
        self._ledger.skip(SkipReason.DUPLICATE, len(chunk.payload) - kept - conflicting)


def _conflicting_bytes(chunk: Chunk, held: Chunk) -> int:
    """Return the size of two chunks' overlap if their bytes differ there, else 0."""
    start, end = max(chunk.offset, held.offset), min(chunk.end, held.end)
    if end <= start or chunk.part(start, end).payload == held.part(start, end).payload:
        return 0
    return end - start
