"""The TCP side of one connection: segments in; chunks and gaps of both directions out, in their order.

Packets may be captured in another order than they were sent: an acknowledgment before its data, a response
before its request, a FIN or RST before the last bytes, a request before the SYN-ACK. `Patience` bounds how
long a connection waits for what must have passed on the wire before it takes it for lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from decoders.frame.record import Closing, Direction
from decoders.wire.ledger import Ledger, SkipReason
from decoders.wire.patience import Patience
from decoders.wire.segment import Segment, TcpFlag
from decoders.wire.stream import MAX_HELD, PIECE_COST, SEQUENCE_SPACE, Chunk, Gap, Stream, StreamSnapshot

_OTHER = {
    Direction.TO_BROKER: Direction.TO_CLIENT,
    Direction.TO_CLIENT: Direction.TO_BROKER,
}
_OPENS_OR_CLOSES = TcpFlag.SYN | TcpFlag.FIN | TcpFlag.RST


class Begun(NamedTuple):
    """A direction whose sequence numbers are known from now on.

    `from_start` is false if its first bytes may have been missed. `captured_at` and `position` are those of
    the packet that shows the numbers.
    """

    from_start: bool
    captured_at: int
    position: int


class SideClosed(NamedTuple):
    """The sender of a direction has sent a FIN or RST, in the packet at `position`.

    `had_received` is the offset up to which it had received the other direction by then.
    """

    had_received: int
    position: int


Event = Begun | Chunk | Gap | SideClosed


class Transport:
    """Follows the streams of both directions.

    Each event must be processed before the next one is asked for, because `streams` then say what has passed
    on so far. They have no direction that has not begun. `ending` is FIN or RST once the connection has ended
    so, and no bytes before that are awaited.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.streams: dict[Direction, Stream] = {}
        self.ending: Closing | None = None
        self._ledger = ledger
        self._awaits_syn = False
        """Whether one direction has begun with a SYN, and that of the other one is still to be captured."""
        self._early: list[tuple[Direction, Segment]] = []
        """Segments captured before the SYN that is awaited."""
        self._reset: tuple[Direction, Segment] | None = None
        """The first RST. Bytes that passed before it may still be captured."""
        self._patience = Patience()

    def is_ordinary(self, direction: Direction, segment: Segment) -> bool:
        """Whether a segment comes in its turn on a connection that waits for nothing and is not closing.

        Most do. They need only a part of what is done for others, with the same result: `take`.
        """
        is_waiting = self._patience.since is not None  # as it is while there are early segments or a RST
        if segment.flags & _OPENS_OR_CLOSES or is_waiting or len(self.streams) < len(_OTHER):
            return False
        own, other = self.streams[direction], self.streams[_OTHER[direction]]
        is_known = other.offset_of(segment.acknowledgment) <= other.next_offset
        return own.is_continued_by(segment) and other.is_steady and is_known

    def take(self, direction: Direction, segment: Segment) -> Chunk | None:
        """Process an ordinary segment, and return its bytes, None if it has none."""
        behind = 0
        if segment.flags & TcpFlag.ACK:
            behind = self.streams[_OTHER[direction]].acknowledge(segment.acknowledgment)
        return self.streams[direction].take(segment, behind) if segment.payload else None

    def process(self, direction: Direction, segment: Segment) -> Iterator[tuple[Direction, Event]]:
        """Process the next segment of either direction, ordinary or not."""
        if self._awaits_syn and not segment.flags & (TcpFlag.SYN | TcpFlag.RST):
            self._early.append((direction, segment))
        else:
            yield from self._process(direction, segment)
            if segment.flags & TcpFlag.SYN:
                yield from self._process_early()
        self._note_ending(waits=True)
        if self.ending is None:
            self._note_wait(segment.captured_at)
            if self._patience.is_exhausted or self.held > MAX_HELD:
                yield from self.give_up(segment.captured_at, segment.position)

    @property
    def waits_since(self) -> int | None:
        """When it began to wait for packets that are captured late, None if it does not wait."""
        return self._patience.since

    @property
    def held(self) -> int:
        """Bytes of memory, roughly, that segments take while they wait for others that come before them."""
        held = sum(len(segment.payload) + PIECE_COST for _, segment in self._early) if self._early else 0
        for stream in self.streams.values():
            held += stream.held
        return held

    def give_up(self, captured_at: int, position: int) -> Iterator[tuple[Direction, Event]]:
        """Wait no longer: take for lost what was awaited when the wait began.

        `captured_at` and `position` are those of the connection's latest packet.
        """
        ends = self._patience.ends
        self._patience.end()
        yield from self._process_early()
        for direction, stream in self.streams.items():
            while stream.next_offset < ends.get(direction, 0) and stream.has_lost_bytes:
                yield from self._lose(direction, ends[direction], captured_at, position)
                yield from self._release()
        while self.held > MAX_HELD:
            yield from self._lose_next(captured_at, position)
        self._note_ending(waits=False)
        if self.ending is None:
            self._note_wait(captured_at)

    def flush(self, captured_at: int, position: int) -> Iterator[tuple[Direction, Event]]:
        """Pass on all held bytes: no more segments will be captured. The arguments are those of `give_up`."""
        yield from self._process_early()
        while any(stream.held or stream.has_lost_bytes for stream in self.streams.values()):
            yield from self._lose_next(captured_at, position)

    @property
    def can_be_offloaded(self) -> bool:
        """Whether nothing is held or awaited: snapshots of its streams are the whole state."""
        if self._early or self._reset is not None:
            return False
        if len(self.streams) < len(_OTHER):
            # A flow has no field for a FIN before the SYN-ACK.
            return all(stream.is_steady for stream in self.streams.values())
        return all(stream.is_in_order for stream in self.streams.values())

    def restore(self, streams: Mapping[Direction, StreamSnapshot]) -> None:
        """Continue from snapshots of the streams. One that is new here began with its SYN."""
        for direction, stream in streams.items():
            if direction not in self.streams:
                self.streams[direction] = Stream(self._ledger, stream.sequence)
            self.streams[direction].restore(stream)
        self._awaits_syn = len(self.streams) < len(_OTHER)

    def _process_early(self) -> Iterator[tuple[Direction, Event]]:
        early, self._early = self._early, []
        for direction, segment in early:
            yield from self._process(direction, segment)

    def _process(self, direction: Direction, segment: Segment) -> Iterator[tuple[Direction, Event]]:
        if segment.flags & TcpFlag.RST:
            yield direction, self._note_reset(direction, segment)
            return
        other, behind = _OTHER[direction], 0
        if segment.flags & TcpFlag.ACK:
            if other not in self.streams:
                yield other, self._begin(other, segment.acknowledgment, segment)
            behind = self.streams[other].acknowledge(segment.acknowledgment)
        if direction not in self.streams:
            first_byte = segment.sequence + bool(segment.flags & TcpFlag.SYN)
            yield direction, self._begin(direction, first_byte, segment)
        if segment.flags & TcpFlag.FIN:
            yield direction, SideClosed(behind, segment.position)
        for gap in self.streams[direction].push(segment, behind):
            yield direction, gap
        yield from self._release()

    def _note_reset(self, direction: Direction, reset: Segment) -> SideClosed:
        self._ledger.skip(SkipReason.AFTER_CLOSE, len(reset.payload))
        self._reset = self._reset or (direction, reset)
        other = self.streams.get(_OTHER[direction])
        had_received = other.offset_of(reset.acknowledgment) if other and reset.flags & TcpFlag.ACK else 0
        return SideClosed(had_received, reset.position)

    def _begin(self, direction: Direction, first_byte: int, segment: Segment) -> Begun:
        """Set up a direction at the first segment that shows its sequence numbers."""
        from_start = bool(segment.flags & TcpFlag.SYN)
        self.streams[direction] = Stream(self._ledger, first_byte % SEQUENCE_SPACE)
        self._awaits_syn = from_start and len(self.streams) < len(_OTHER)
        return Begun(from_start, segment.captured_at, segment.position)

    def _release(self) -> Iterator[tuple[Direction, Event]]:
        """Pass on what is next in either direction, each chunk after what its sender had received."""
        goes_on = True
        while goes_on:
            goes_on = False
            for direction, stream in self.streams.items():
                if not stream.is_blocked:
                    continue
                for event in stream.release(self.streams.get(_OTHER[direction])):
                    goes_on = True
                    yield direction, event
            if not goes_on and all(stream.is_blocked for stream in self.streams.values()):
                # No TCP sends bytes of both directions each of which acknowledges the other.
                goes_on = True
                direction, stream = next(iter(self.streams.items()))
                for event in stream.release_first():
                    yield direction, event

    def _lose(
        self, direction: Direction, end: int, captured_at: int, position: int
    ) -> Iterator[tuple[Direction, Event]]:
        for gap in self.streams[direction].give_up(end, captured_at, position):
            yield direction, gap

    def _lose_next(self, captured_at: int, position: int) -> Iterator[tuple[Direction, Event]]:
        """Take the next missing bytes of both directions for lost, acknowledged or not."""
        for direction, stream in self.streams.items():
            end = max(stream.awaited_end, stream.first_held)
            yield from self._lose(direction, end, captured_at, position)
        yield from self._release()

    def _note_wait(self, captured_at: int) -> None:
        is_held_up = bool(self._early) or self._reset is not None
        self._patience.note(captured_at, self.streams, is_held_up=is_held_up)

    def _note_ending(self, *, waits: bool) -> None:
        """Note that the connection has ended, if it has. If it `waits`, bytes before a RST are awaited."""
        streams = self.streams.values()
        if self._reset is not None and not (waits and self._awaits_before(*self._reset)):
            self.ending = Closing.RST
        elif len(streams) == len(_OTHER) and all(stream.is_finished for stream in streams):
            self.ending = Closing.FIN

    def _awaits_before(self, direction: Direction, reset: Segment) -> bool:
        """Whether bytes that passed before a RST are not captured so far."""
        numbers = {direction: reset.sequence}
        if reset.flags & TcpFlag.ACK:
            numbers[_OTHER[direction]] = reset.acknowledgment
        return bool(self._early) or any(
            stream.held or (each in numbers and not stream.has_reached(stream.offset_of(numbers[each])))
            for each, stream in self.streams.items()
        )
