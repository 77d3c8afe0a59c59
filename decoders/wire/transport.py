"""The TCP side of one connection: segments in; chunks and gaps of both directions out, in their order.

    state      meaning                                   next state
    ---------  ----------------------------------------  ---------------------------------------------------
    UNSEEN     no direction has begun                    HALF_OPEN at a SYN; OPEN at any other segment with
                                                         ACK, because it shows where both directions begin
    HALF_OPEN  one direction has begun with its SYN;     OPEN at the SYN of the other direction, or when the
               segments without SYN are held as early    wait for it is given up: an early one begins it
    OPEN       both directions pass on what is in order  CLOSING at the first FIN or RST that its receiver may
                                                         take (`decoders.wire.closing`)
    CLOSING    bytes before a FIN or RST may be missing  ENDED when all bytes before both FINs, or before
                                                         the RST, have passed or are given up; OPEN when the
                                                         side that closed shows that it goes on
    ENDED      `ending` is FIN or RST                    none: the tracker remembers the connection

`decoders.wire.waiting` says which packets are awaited that may be captured late, and for how long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from decoders.frame.record import Closing, Direction
from decoders.wire.chunk import PIECE_COST, Chunk, StreamEvent, UnsizedGap
from decoders.wire.closing import OTHER, ClosingSides, Ends, Reset
from decoders.wire.ledger import Contradiction, Ledger, SkipReason
from decoders.wire.segment import Segment, TcpFlag
from decoders.wire.stream import MAX_AHEAD, MAX_HELD, SEQUENCE_SPACE, Stream, StreamSnapshot
from decoders.wire.waiting import Wait

_OPENS_OR_CLOSES = TcpFlag.SYN | TcpFlag.FIN | TcpFlag.RST


class Begun(NamedTuple):
    """The sequence numbers of a direction are known.

    `from_start` is false if its first bytes may have been missed. `captured_at` and `position` are those of
    the packet that shows the numbers.
    """

    from_start: bool
    captured_at: int
    position: int


TransportEvent = Begun | StreamEvent
TransportEvents = Iterator[tuple[Direction, TransportEvent]]


class Transport:
    """Follows the streams of both directions.

    Each event must be processed before the next one is asked for: `streams` then say what has passed on up to
    it. They have no direction that has not begun. `ending` is FIN or RST in the state ENDED, else None.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.streams: dict[Direction, Stream] = {}
        self.ending: Closing | None = None
        self.closing_sides = ClosingSides()
        self._ledger = ledger
        self._awaits_syn = False
        """Whether the state is HALF_OPEN."""
        self._early: list[tuple[Direction, Segment]] = []
        """Segments captured before the SYN that is awaited, and those of the client that are no proof."""
        self._is_proven = False
        """Whether the client has shown that it receives what the broker sends."""
        self._syn_data: Segment | None = None
        """The bytes of the client's SYN, until the client has shown that it sent it."""
        self._reset: Reset | None = None
        """A RST that counts, or may count."""
        self._wait = Wait()

    def is_ordinary(self, direction: Direction, segment: Segment) -> bool:
        """Whether a segment comes in its turn on a connection that is OPEN and waits for nothing.

        Most do. `take` does for them what `process` does, in less time.
        """
        is_waiting = self._wait.since is not None  # as it is while there are early segments or a RST
        if segment.flags & _OPENS_OR_CLOSES or is_waiting or len(self.streams) < len(OTHER):
            return False
        own, other = self.streams[direction], self.streams[OTHER[direction]]
        acknowledged = other.offset_of(segment.acknowledgment) - other.next_offset
        is_known = -MAX_AHEAD <= acknowledged <= 0
        is_taken = not segment.payload or segment.flags & TcpFlag.ACK
        return bool(own.is_continued_by(segment) and other.is_steady and is_known and is_taken)

    def take(self, direction: Direction, segment: Segment) -> Chunk | None:
        """Process an ordinary segment, and return its bytes, None if it has none."""
        behind = 0
        if segment.flags & TcpFlag.ACK:
            acknowledged = self.streams[OTHER[direction]]
            behind = acknowledged.acknowledge(segment.acknowledgment, segment.captured_at)
        return self.streams[direction].take(segment, behind) if segment.payload else None

    def is_proof(self, segment: Segment) -> bool:
        """Whether a segment shows that the client receives what the broker sends.

        Also true if nobody can tell.
        """
        responses = self.streams.get(Direction.TO_CLIENT)
        if responses is None or segment.flags & (TcpFlag.SYN | TcpFlag.RST):
            return True
        return bool(segment.flags & TcpFlag.ACK) and responses.is_proof(segment.acknowledgment)

    def process(
        self, direction: Direction, segment: Segment, *, is_unproven: bool = False
    ) -> TransportEvents:
        """Process the next segment of either direction, ordinary or not.

        An unproven one is held: what it acknowledges may be captured late, or somebody else sent it.
        """
        opens_or_resets = segment.flags & (TcpFlag.SYN | TcpFlag.RST)
        if is_unproven or (self._awaits_syn and not opens_or_resets):
            self._early.append((direction, segment))
        else:
            yield from self._process(direction, segment)
            self._note_proof(direction, segment)
            if self._early and not self._awaits_syn:
                yield from self._process_early()
        self._note_ending(waits=True)
        if self.ending is None:
            self._note_wait(segment.captured_at)
            if self._wait.is_exhausted or self.held > MAX_HELD:
                yield from self.give_up(segment.captured_at, segment.position)

    @property
    def waits_since(self) -> int | None:
        """The capture time at which the current wait began, None if there is none."""
        return self._wait.since

    @property
    def held(self) -> int:
        """Bytes of memory, roughly, that segments take while they wait for others that come before them."""
        held = sum(len(segment.payload) + PIECE_COST for _, segment in self._early) if self._early else 0
        if self._syn_data is not None:
            held += len(self._syn_data.payload) + PIECE_COST
        for stream in self.streams.values():
            held += stream.held
        return held

    def give_up(self, captured_at: int, position: int) -> TransportEvents:
        """End the wait: what was awaited when it began is lost.

        `captured_at` and `position` are those of the connection's latest packet.
        """
        ends = self._wait.ends
        self._wait.end()
        yield from self._process_early()
        self._skip_early()
        for direction, stream in self.streams.items():
            while stream.next_offset < ends.get(direction, 0) and stream.has_lost_bytes:
                yield from self._lose(direction, ends[direction], captured_at, position)
                yield from self._release()
        while self.held > MAX_HELD:
            yield from self._lose_next(captured_at, position)
        self._note_ending(waits=False)
        if self.ending is None:
            self._note_wait(captured_at)

    def flush(self, captured_at: int, position: int) -> TransportEvents:
        """Pass on all held bytes: no more segments will be captured. The arguments are those of `give_up`."""
        yield from self._process_early()
        self._skip_early()
        if self._syn_data is not None:
            self._ledger.skip(SkipReason.AFTER_CLOSE, len(self._syn_data.payload))
            self._syn_data = None
        for direction, end in self._reset.ends(self.streams).items() if self._reset is not None else ():
            self.streams[direction].drop_from(end)
        for stream in self.streams.values():
            stream.drop_far_ahead()
        while any(stream.held or stream.has_lost_bytes for stream in self.streams.values()):
            yield from self._lose_next(captured_at, position)

    @property
    def ends(self) -> Ends:
        """Where both directions have ended, in the state ENDED."""
        numbers = {direction: stream.next_sequence for direction, stream in self.streams.items()}
        closers = self.closing_sides.closers
        return Ends(
            (numbers.get(Direction.TO_BROKER), numbers.get(Direction.TO_CLIENT)),
            (Direction.TO_BROKER in closers, Direction.TO_CLIENT in closers),
        )

    @property
    def closer(self) -> Direction:
        """The side that closed first, NONE if no side did."""
        return self.closing_sides.first(self.streams)

    @property
    def can_be_offloaded(self) -> bool:
        """Whether nothing is awaited, so that stream snapshots and closers are all that changes.

        What is held stays here. Segments that reach it must not be processed elsewhere.
        """
        if self._early or self._syn_data or self._reset is not None or self.closing_sides.has_close_notify:
            return False
        streams = self.streams.values()
        if len(streams) < len(OTHER):
            # A flow has no field for a FIN before the SYN-ACK.
            return all(stream.is_steady for stream in streams)
        is_in_order = all(stream.is_in_order for stream in streams)
        return is_in_order or all(stream.goes_on_before_hole for stream in streams)

    def restore(self, streams: Mapping[Direction, StreamSnapshot], closers: dict[Direction, int]) -> None:
        """Continue from snapshots of the streams and from the closers. A new stream began with a SYN."""
        for direction, stream in streams.items():
            if direction not in self.streams:
                self.streams[direction] = Stream(self._ledger, stream.sequence)
            self.streams[direction].restore(stream)
        self._awaits_syn = len(self.streams) < len(OTHER)
        self.closing_sides.closers = closers

    def _process_early(self) -> TransportEvents:
        """Process what was captured too early, as far as it is proven."""
        goes_on = True
        while goes_on:
            goes_on = False
            early, self._early = self._early, []
            for direction, segment in early:
                if direction is Direction.TO_CLIENT or self.is_proof(segment):
                    goes_on = True
                    yield from self._process(direction, segment)
                    self._note_proof(direction, segment)
                else:
                    self._early.append((direction, segment))

    def _skip_early(self) -> None:
        """Skip segments of a client that has not shown in time that it opens the connection."""
        for _, segment in self._early:
            self._ledger.contradict(Contradiction.ACKNOWLEDGMENT)
            self._ledger.skip(SkipReason.AFTER_CLOSE, len(segment.payload))
        self._early = []

    def _note_proof(self, direction: Direction, segment: Segment) -> None:
        if direction is Direction.TO_BROKER and not segment.flags & (TcpFlag.SYN | TcpFlag.RST):
            self._is_proven = True

    def _process(self, direction: Direction, segment: Segment) -> TransportEvents:
        if segment.flags & TcpFlag.RST:
            self._note_reset(direction, segment)
            return
        if self._reset is not None:
            self._reset.note(direction, segment, self.streams)
        segment = self._without_untaken(direction, segment)
        other, behind = OTHER[direction], 0
        if segment.flags & TcpFlag.ACK:
            if other not in self.streams:
                yield other, self._begin(other, segment.acknowledgment, segment)
            yield from self._resume(other, segment)
            behind = self.streams[other].acknowledge(segment.acknowledgment, segment.captured_at)
        if direction is Direction.TO_BROKER:
            segment = self._without_syn_data(segment)
        if direction not in self.streams:
            first_byte = segment.sequence + bool(segment.flags & TcpFlag.SYN)
            yield direction, self._begin(direction, first_byte, segment)
        stream = self.streams[direction]
        if stream.is_continued_behind_end(segment):
            self._withdraw_fin(direction)
        if direction is Direction.TO_BROKER and not segment.flags & TcpFlag.SYN:
            yield from self._push_syn_data(stream)
        for gap in stream.push(segment, behind):
            yield direction, gap
        if segment.flags & TcpFlag.FIN and stream.has_end:
            self.closing_sides.note_closed(direction, behind, segment.position)
        yield from self._release()

    def _resume(self, direction: Direction, acknowledging: Segment) -> TransportEvents:
        """Continue a direction at an acknowledgment, if that shows that its latest gap was forged."""
        stream, number = self.streams[direction], acknowledging.acknowledgment
        if stream.is_contradicted_by(number, acknowledging.captured_at):
            if stream.has_end:
                self._withdraw_fin(direction)
            stream.resume(number)
            yield direction, UnsizedGap(acknowledging.captured_at, acknowledging.position)

    def _without_untaken(self, direction: Direction, segment: Segment) -> Segment:
        """Return a segment, without its bytes if its receiver drops them.

        It does unless they come with a possible acknowledgment, or a SYN (RFC 9293 section 3.10.7.4).
        """
        other = self.streams.get(OTHER[direction])
        if not (segment.payload or segment.missing) or segment.flags & TcpFlag.SYN:
            return segment
        has_number = bool(segment.flags & TcpFlag.ACK)
        if has_number and (other is None or other.may_be_acknowledged(segment.acknowledgment)):
            return segment
        if not has_number:
            self._ledger.contradict(Contradiction.ACKNOWLEDGMENT)
        self._ledger.skip(SkipReason.AFTER_CLOSE, len(segment.payload))
        return segment._replace(payload=b"", missing=0)

    def _without_syn_data(self, segment: Segment) -> Segment:
        """Return a segment, without its bytes if it is a SYN. Those of the first SYN are kept for later."""
        has_bytes = bool(segment.payload or segment.missing)
        if not (has_bytes and segment.flags & TcpFlag.SYN):
            return segment
        if self.streams:
            self._ledger.skip(SkipReason.DUPLICATE, len(segment.payload))
        else:
            self._syn_data = segment._replace(sequence=segment.sequence + 1, flags=0)
        return segment._replace(payload=b"", missing=0)

    def _push_syn_data(self, stream: Stream) -> TransportEvents:
        """Pass on the bytes of the SYN, if the broker has taken any of them or is not captured."""
        data, self._syn_data = self._syn_data, None
        responses = self.streams.get(Direction.TO_CLIENT)
        if data is None:
            return
        if responses is not None and responses.is_heard and not stream.awaited_end:
            self._ledger.skip(SkipReason.AFTER_CLOSE, len(data.payload))
            return
        for gap in stream.push(data):
            yield Direction.TO_BROKER, gap

    def _note_reset(self, direction: Direction, reset: Segment) -> None:
        self._ledger.skip(SkipReason.AFTER_CLOSE, len(reset.payload))
        noted = Reset(direction, reset)
        if not noted.is_possible(self.streams):
            self._ledger.contradict(Contradiction.RESET)
            return
        if self._reset is not None:
            if self._reset.is_expected(self.streams) or not noted.is_expected(self.streams):
                return
            self._withdraw(self._reset.direction, Contradiction.RESET)
        self._reset = noted
        if direction is Direction.TO_BROKER and not (self._is_proven or self._awaits_syn):
            self._skip_early()
        other = self.streams.get(OTHER[direction])
        had_received = other.offset_of(reset.acknowledgment) if other and reset.flags & TcpFlag.ACK else 0
        self.closing_sides.note_closed(direction, had_received, reset.position)

    def _begin(self, direction: Direction, first_byte: int, segment: Segment) -> Begun:
        """Set up a direction at the first segment that shows its sequence numbers."""
        from_start = bool(segment.flags & TcpFlag.SYN)
        self.streams[direction] = Stream(self._ledger, first_byte % SEQUENCE_SPACE)
        self._awaits_syn = from_start and len(self.streams) < len(OTHER)
        return Begun(from_start, segment.captured_at, segment.position)

    def _release(self) -> TransportEvents:
        """Pass on what is next in either direction, each chunk after what its sender had received."""
        goes_on = True
        while goes_on:
            goes_on = False
            for direction, stream in self.streams.items():
                if not stream.is_blocked:
                    continue
                for event in stream.release(self.streams.get(OTHER[direction])):
                    goes_on = True
                    yield direction, event
            if not goes_on and all(stream.is_blocked for stream in self.streams.values()):
                # No TCP sends bytes of both directions each of which acknowledges the other.
                goes_on = True
                direction, stream = next(iter(self.streams.items()))
                for event in stream.release_first():
                    yield direction, event

    def _lose(self, direction: Direction, end: int, captured_at: int, position: int) -> TransportEvents:
        for gap in self.streams[direction].give_up(end, captured_at, position):
            yield direction, gap

    def _lose_next(self, captured_at: int, position: int) -> TransportEvents:
        """Lose the next missing bytes of both directions, acknowledged or not."""
        for direction, stream in self.streams.items():
            stream.drop_behind_end()
            end = max(stream.awaited_end, stream.first_held)
            yield from self._lose(direction, end, captured_at, position)
        yield from self._release()

    def _note_wait(self, captured_at: int) -> None:
        is_held_up = bool(self._early) or self._reset is not None
        # The bytes of a SYN that the broker acknowledges are at hand.
        streams = {} if self._syn_data is not None else self.streams
        self._wait.note(captured_at, streams, is_held_up=is_held_up)

    def _note_ending(self, *, waits: bool) -> None:
        """Enter the state ENDED if nothing before the end is missing; without `waits`, at any RST."""
        streams = self.streams.values()
        if (reset := self._reset) is not None:
            is_doubtful = reset.went_on and not reset.is_expected(self.streams)
            if reset.is_passed(self.streams) or (is_doubtful and not waits):
                self._reset = None
                self._withdraw(reset.direction, Contradiction.RESET)
            elif not (waits and (self._early or reset.awaits(self.streams))):
                self.ending = Closing.RST
        elif len(streams) == len(OTHER) and all(stream.is_finished for stream in streams):
            self.ending = Closing.FIN

    def _withdraw_fin(self, direction: Direction) -> None:
        """Note that a side goes on behind its FIN."""
        self.streams[direction].withdraw_end()
        self._withdraw(direction, Contradiction.FIN)

    def _withdraw(self, direction: Direction, contradiction: Contradiction) -> None:
        """Note that the connection goes on although a side has closed it."""
        self._ledger.contradict(contradiction)
        stream = self.streams.get(direction)
        if stream is None or not stream.has_end:
            self.closing_sides.withdraw(direction)
