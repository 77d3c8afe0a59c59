"""One direction of a TCP connection: segments in, bytes in order out, and gaps of known size.

Offsets in the stream do not wrap: offset 0 is the first byte after the SYN, or the first captured byte if the
SYN was missed. Of bytes that were sent twice, those captured first are used (RFC 9293 section 3.10.7.4 lets a
receiver trim what it has). If these are still buffered and the others differ, nothing shows which ones the
receiver took: a checksum may be wrong, or too few hops allowed. Such bytes are disputed: none of them are
used, and they are a gap. Bytes that were passed on are not kept for comparison, which would cost too much.

Bytes behind a hole are buffered while the missing ones may still arrive. If the other side has acknowledged a
hole, its bytes have passed on the wire, and may still be captured: packets of several queues are not in wire
order. The connection decides how long to wait before the hole becomes a gap.

A stranger can forge the number in a segment, so segments are judged as their receiver judges them (RFC 9293
section 3.10.7.4). An acknowledgment more than MAX_AHEAD beyond what was captured shows no loss, and a FIN is
ignored if its sender goes on behind it. Bytes behind a hole are dropped if their receiver still acknowledges
less RESENT_WITHIN later. A gap is *sure* once the receiver acknowledges captured bytes behind it. If it
acknowledges less instead, which an honest receiver never does, the segment that showed the gap was forged:
the stream goes on at this acknowledgment.

A chunk is released only after the bytes of the other direction that its sender had acknowledged by then. So a
response follows its request, in whichever order they were captured.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from decoders.wire.chunk import PIECE_COST, Chunk, Gap
from decoders.wire.ledger import Contradiction, Ledger, SkipReason
from decoders.wire.segment import Segment, TcpFlag

MAX_HELD = 4 * 1024 * 1024
"""Bytes that may be held behind a hole, including PIECE_COST for each held chunk."""
SEQUENCE_SPACE = 1 << 32
MAX_AHEAD = 64 * 1024 * 1024
"""Bytes by which a RST, a FIN or an acknowledgment may be ahead of what was captured. A feeder misses less
between two packets of a connection; a random number is as near with a probability of 1/64."""
RESENT_WITHIN = 10_000_000_000
"""Nanoseconds in which missing bytes are sent again: five timeouts, the first of 200 ms and each twice the
one before."""
NOTHING_HELD = (1 << 63) - 1


class StreamSnapshot(NamedTuple):
    """The state of a stream that is in order: offset and 32-bit sequence number of the next byte.

    `is_finished` means that the FIN is next and was captured. If bytes are held behind a hole of which
    nothing is acknowledged, `first_held` is the offset of the first, and from the capture time `doubted_at`
    on an acknowledgment may show that they never arrived; else both are NOTHING_HELD.
    """

    offset: int
    sequence: int
    is_finished: bool = False
    first_held: int = NOTHING_HELD
    doubted_at: int = NOTHING_HELD


class UnsureGaps(NamedTuple):
    """The range of offsets of gaps that are not sure, and when the segment that showed them was captured."""

    begin: int
    end: int
    shown_at: int


class Stream:
    """Reassembles one direction. `initial` is the sequence number of its first byte.

    `next_offset` and `next_sequence` are those of the next byte in order. `held` is the memory, in bytes, of
    the chunks that are held behind a hole or wait for the other direction, with PIECE_COST for each.
    """

    def __init__(self, ledger: Ledger, initial: int) -> None:
        self._ledger = ledger
        self.next_offset = 0
        self.next_sequence = initial
        self._chunks: list[Chunk] = []
        self.held = 0
        self._doubted_at = NOTHING_HELD
        self._acknowledged_at = 0
        self._unsure: UnsureGaps | None = None
        self._end: int | None = None
        self._acknowledged = 0
        self.is_heard = False
        """Whether a segment of the sender was captured. If not, acknowledgments alone tell of its bytes."""

    def offset_of(self, sequence: int) -> int:
        """Return the offset of a 32-bit sequence or acknowledgment number, within 2 GiB of the next byte."""
        distance = (sequence - self.next_sequence) % SEQUENCE_SPACE
        return self.next_offset + distance - (SEQUENCE_SPACE if distance >= SEQUENCE_SPACE // 2 else 0)

    @property
    def is_in_order(self) -> bool:
        """Whether nothing is held or awaited, and no FIN is ahead."""
        is_passed = self._end in (None, self.next_offset) and self.awaited_end <= self.next_offset
        return is_passed and not self._chunks and self.is_heard and self._unsure is None

    @property
    def goes_on_before_hole(self) -> bool:
        """Whether nothing is awaited, no FIN was captured, and what is held waits for bytes not yet sent."""
        is_passed = self._acknowledged <= self.next_offset and not self.is_blocked and self._unsure is None
        return is_passed and self.is_heard and self._end is None

    @property
    def is_steady(self) -> bool:
        """Whether nothing is held or awaited, and no FIN was captured."""
        return not self._chunks and self.goes_on_before_hole

    @property
    def awaited_end(self) -> int:
        """The offset up to which the receiver has the bytes: those before it passed on the wire."""
        return self._acknowledged if self._end is None else min(self._acknowledged, self._end)

    @property
    def first_held(self) -> int:
        """The offset of the first held byte, or else of the next one."""
        return self._chunks[0].offset if self._chunks else self.next_offset

    @property
    def has_lost_bytes(self) -> bool:
        """Whether the next byte has passed on the wire without being captured."""
        return self.next_offset < self.awaited_end and not self.is_blocked

    @property
    def is_blocked(self) -> bool:
        """Whether the next byte is held. After `release` its chunk waits for the other direction."""
        return bool(self._chunks) and self._chunks[0].offset == self.next_offset

    def has_reached(self, offset: int) -> bool:
        """Whether all bytes before an offset have passed on. A FIN has a sequence number but is no byte."""
        return self.next_offset >= (offset if self._end is None else min(offset, self._end))

    def awaits_before(self, offset: int) -> bool:
        """Whether acknowledged bytes before an offset have not passed on."""
        return self.next_offset < min(offset, self.awaited_end)

    def has_end_before(self, offset: int) -> bool:
        """Whether a FIN was captured, and an acknowledgment up to an offset includes it."""
        return self._end is not None and offset > self._end

    def expects(self, offset: int) -> bool:
        """Whether an offset is that of the next byte, or the one behind the FIN."""
        return offset == self.next_offset or (self.is_finished and offset == self.next_offset + 1)

    def may_end_at(self, offset: int) -> bool:
        """Whether the receiver may take a FIN or RST at an offset: bytes before it may be missing here."""
        return self.next_offset <= offset <= self.next_offset + MAX_AHEAD

    def is_continued_behind_end(self, segment: Segment) -> bool:
        """Whether a segment continues the stream behind its FIN."""
        if self._end is None or not (segment.payload or segment.missing):
            return False
        start = self.offset_of(segment.sequence)
        return start <= self._end < start + len(segment.payload) + segment.missing

    @property
    def has_end(self) -> bool:
        """Whether a FIN was captured, perhaps before the bytes that precede it."""
        return self._end is not None

    def withdraw_end(self) -> None:
        """Forget the FIN: its sender goes on behind it. If its number was acknowledged, that was no byte."""
        if self._acknowledged - 1 == self._end:
            self._acknowledged -= 1
        self._end = None

    def snapshot(self) -> StreamSnapshot:
        """Return the state of a stream that is in order, or goes on before a hole."""
        held = (self._chunks[0].offset, self._doubted_at) if self._chunks else (NOTHING_HELD, NOTHING_HELD)
        return StreamSnapshot(self.next_offset, self.next_sequence, self.is_finished, *held)

    def restore(self, snapshot: StreamSnapshot) -> None:
        """Continue from a snapshot, which has not reached the bytes that are held here."""
        self.is_heard = True
        self.next_offset, self.next_sequence, is_finished = snapshot[:3]
        self._end = self.next_offset if is_finished else None

    @property
    def is_finished(self) -> bool:
        """Whether the sender has closed this direction and all bytes before its FIN were passed on."""
        return self._end is not None and self.next_offset >= self._end

    def is_continued_by(self, segment: Segment) -> bool:
        """Whether the stream is steady, and a segment is not cut and has the next bytes or none."""
        is_next = not segment.payload or segment.sequence == self.next_sequence
        return is_next and not segment.missing and self.is_steady

    def take(self, segment: Segment, behind: int = 0) -> Chunk:
        """Pass on the payload of a segment that continues this stream, as `push` and `release` would."""
        chunk = _chunk(self.next_offset, segment, behind)
        self._pass(chunk.end)
        return chunk

    def push(self, segment: Segment, behind: int = 0) -> Iterator[Gap]:
        """Add a segment, whose sender had received the other direction's bytes before the offset `behind`.

        Yields the gap of a segment without payload whose bytes the snap length cut off.
        """
        self.is_heard = True
        start = self.offset_of(segment.sequence) + bool(segment.flags & TcpFlag.SYN)
        chunk = _chunk(start, segment, behind)
        if segment.flags & TcpFlag.FIN and self._end is None:
            end = chunk.end + segment.missing
            if self.may_end_at(end):
                self._end = end
            else:
                self._ledger.contradict(Contradiction.FIN)
        if chunk.payload:
            self._hold(chunk)
        if chunk.missing and self.next_offset == chunk.end:
            yield from self._skip_missing(chunk)

    def acknowledge(self, number: int, captured_at: int) -> int:
        """Process an acknowledgment: the receiver has all bytes before a 32-bit sequence number.

        Returns the number's offset, or that of the next byte if the number is not accepted.
        """
        offset = self.offset_of(number)
        if not self.may_be_acknowledged(number):
            self._ledger.contradict(Contradiction.ACKNOWLEDGMENT)
            return self.next_offset
        if self._unsure is not None and self._unsure.end < offset <= self.next_offset:
            self._unsure = None
        if offset > self._acknowledged:
            self._acknowledged, self._acknowledged_at = offset, captured_at
        if captured_at >= self._doubted_at:
            self._drop_doubted(captured_at)
        return offset

    def is_contradicted_by(self, number: int, captured_at: int) -> bool:
        """Whether an acknowledgment lies within gaps that are not sure, so no more than that was sent.

        It must have been captured after the segment that showed the gaps: an earlier one proves nothing.
        """
        unsure = self._unsure
        if unsure is None or captured_at <= unsure.shown_at:
            return False
        return unsure.begin <= self.offset_of(number) < unsure.end

    def resume(self, number: int) -> None:
        """Go on at a sequence number within gaps that are not sure. Unknown many bytes before it are lost."""
        self._ledger.contradict(Contradiction.ACKNOWLEDGMENT)
        self._drop(lambda _: True, Contradiction.SEQUENCE)
        self.next_sequence, self._acknowledged = number, self.next_offset
        self._unsure = None

    def _drop_doubted(self, captured_at: int) -> None:
        """Drop what is not acknowledged and has been held for RESENT_WITHIN, or up to a tenth longer."""
        last, received = captured_at - RESENT_WITHIN, self._acknowledged
        self._drop(lambda each: each.captured_at <= last and each.offset >= received, Contradiction.SEQUENCE)
        held_since = min((chunk.captured_at for chunk in self._chunks), default=NOTHING_HELD - RESENT_WITHIN)
        # Every piece is looked at, and a stranger can make many whose times differ.
        self._doubted_at = max(held_since, captured_at - RESENT_WITHIN * 9 // 10) + RESENT_WITHIN

    def may_be_acknowledged(self, number: int) -> bool:
        """Whether the sender of this stream may take a segment with this acknowledgment (RFC 5961, 5.2)."""
        passed = self.next_offset if self._unsure is None else self._unsure.begin
        lowest, highest = passed - MAX_AHEAD, self._known_end + MAX_AHEAD
        return not self.is_heard or lowest <= self.offset_of(number) <= highest

    def is_proof(self, number: int) -> bool:
        """Whether an acknowledgment shows that its sender receives this stream. Also true if nobody can tell.

        It does if it is within what was sent. Nobody can tell if no segment of this stream was captured.
        """
        return not self.is_heard or 0 <= self.offset_of(number) <= self._known_end

    @property
    def _known_end(self) -> int:
        """The offset up to which captured or acknowledged bytes go, before a new segment is believed."""
        return max(self._chunks[-1].end if self._chunks else self.next_offset, self.awaited_end)

    def release(self, other: Stream | None = None) -> Iterator[Chunk | Gap]:
        """Yield the chunks that are next in order, as far as `other` has passed on what precedes them."""
        while self.is_blocked and (other is None or not other.awaits_before(self._chunks[0].behind)):
            yield from self.release_first()

    def drop_behind_end(self) -> None:
        """Drop what is held behind the FIN once all before it has passed on: no receiver takes it."""
        if self.is_finished:
            self._drop(lambda _: True, Contradiction.FIN)

    def drop_from(self, offset: int) -> None:
        """Drop what is held from an offset on, because a RST shows that it never arrived."""
        self._drop(lambda chunk: chunk.offset >= offset, Contradiction.SEQUENCE)

    def drop_far_ahead(self) -> None:
        """Drop what is held more than MAX_AHEAD beyond what was captured or acknowledged in order."""
        last = max(self.next_offset, self.awaited_end) + MAX_AHEAD
        self._drop(lambda chunk: chunk.offset > last, Contradiction.SEQUENCE)

    def discard(self) -> None:
        """Drop all that is held, at once: it may be in thousands of pieces."""
        self._ledger.skip(SkipReason.UNSYNCHRONISED, sum(len(chunk.payload) for chunk in self._chunks))
        self._chunks, self.held = [], 0

    def _drop(self, is_dropped: Callable[[Chunk], bool], contradiction: Contradiction) -> None:
        """Drop held chunks that contradict what their receiver shows."""
        dropped = [chunk for chunk in self._chunks if is_dropped(chunk)]
        if not dropped:
            return
        size = sum(len(chunk.payload) for chunk in dropped)
        self._ledger.contradict(contradiction)
        self._ledger.skip(SkipReason.AFTER_CLOSE, size)
        self._chunks = [chunk for chunk in self._chunks if not is_dropped(chunk)]
        self.held -= size + PIECE_COST * len(dropped)

    def give_up(self, end: int, captured_at: int, position: int, *, is_sure: bool = False) -> Iterator[Gap]:
        """Turn the hole at the next byte into a gap, up to an offset at most."""
        stop = min(end, self._chunks[0].offset) if self._chunks else end
        if self.next_offset < stop:
            start = self.next_offset
            self._ledger.lose(stop - start)
            self._pass(stop)
            if self.is_heard and not is_sure:
                first = self._unsure or UnsureGaps(start, stop, 0)
                shown_at = self._acknowledged_at if stop <= self._acknowledged else captured_at
                self._unsure = UnsureGaps(first.begin, stop, max(first.shown_at, shown_at))
            yield Gap(start, stop - start, captured_at, position)

    def release_first(self) -> Iterator[Chunk | Gap]:
        """Yield the chunk of a stream that `is_blocked`, although it waits for the other direction."""
        chunk = self._chunks.pop(0)
        self.held -= len(chunk.payload) + PIECE_COST
        self._pass(chunk.end)
        if chunk.is_disputed:
            self._ledger.skip(SkipReason.CONFLICTING, len(chunk.payload))
            yield Gap(chunk.offset, len(chunk.payload), chunk.captured_at, chunk.position)
        else:
            yield chunk
        if chunk.missing:
            yield from self._skip_missing(chunk)

    def _skip_missing(self, chunk: Chunk) -> Iterator[Gap]:
        yield from self.give_up(chunk.end + chunk.missing, chunk.captured_at, chunk.position, is_sure=True)

    def _pass(self, offset: int) -> None:
        """Move the next byte to an offset."""
        self.next_sequence = (self.next_sequence + offset - self.next_offset) % SEQUENCE_SPACE
        self.next_offset = offset

    def _hold(self, chunk: Chunk) -> None:
        """Hold the parts of a chunk that have not passed and are not held."""
        kept = conflicting = 0
        disputed: list[tuple[int, int]] = []
        doubted_at = chunk.captured_at + RESENT_WITHIN
        self._doubted_at = min(self._doubted_at, doubted_at) if self._chunks else doubted_at
        at = max(chunk.offset, self.next_offset)
        index = bisect_right(self._chunks, at, key=lambda held: held.end)
        while at < chunk.end:
            next_held = self._chunks[index] if index < len(self._chunks) else None
            end = min(chunk.end, next_held.offset) if next_held else chunk.end
            if at < end:
                self._chunks.insert(index, chunk.part(at, end))
                self.held += end - at + PIECE_COST
                kept += end - at
                index += 1
            if next_held and (overlap := _conflict(chunk, next_held)):
                disputed.append(overlap)
                conflicting += overlap[1] - overlap[0]
            at = next_held.end if next_held else end
            index += 1
        self._ledger.skip(SkipReason.CONFLICTING, conflicting)
        self._ledger.skip(SkipReason.DUPLICATE, len(chunk.payload) - kept - conflicting)
        if disputed:
            self._ledger.contradict(Contradiction.CONTENT)
            self._dispute(disputed)

    def _dispute(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Note the ranges of offsets, each within a held chunk, that were captured with different bytes."""
        for start, end in ranges:
            index = bisect_right(self._chunks, start, key=lambda held: held.end)
            held = self._chunks[index]
            bounds = sorted({held.offset, start, end, held.end})
            parts = [held.part(*part) for part in pairwise(bounds)]
            self._chunks[index : index + 1] = [
                part._replace(is_disputed=held.is_disputed or start <= part.offset < end) for part in parts
            ]
            self.held += PIECE_COST * (len(parts) - 1)


def _chunk(offset: int, segment: Segment, behind: int) -> Chunk:
    """Return the payload of a segment that begins at an offset."""
    place = segment.captured_at, segment.position, segment.acknowledgment
    return Chunk(offset, segment.payload, *place, starts_segment=True, behind=behind, missing=segment.missing)


def _conflict(chunk: Chunk, held: Chunk) -> tuple[int, int] | None:
    """Return where two chunks overlap if their bytes differ there, and the held ones are not yet disputed."""
    start, end = max(chunk.offset, held.offset), min(chunk.end, held.end)
    if end <= start or held.is_disputed:
        return None
    same = chunk.payload[start - chunk.offset : end - chunk.offset]
    return None if same == held.payload[start - held.offset : end - held.offset] else (start, end)
