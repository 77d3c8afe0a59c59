"""One TCP connection: its two streams, its Kafka layer, how it was opened and how it was closed.

Packets may be captured in another order than they were sent: an acknowledgment before its data, a response
before its request, a FIN or RST before the last bytes, a request before the SYN-ACK. `Patience` bounds how
long a connection waits for what must have passed on the wire before it takes it for lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from decoders.frame.record import Closing, Direction, Kind, Record
from decoders.tls.key_log import KeyLog
from decoders.wire.decrypted import CloseNotify, Passed, RecordsSnapshot, Unreadable
from decoders.wire.decryption import Decryption
from decoders.wire.frame_detector import FrameDetector
from decoders.wire.kafka_layer import KafkaLayer, KafkaLayerSnapshot
from decoders.wire.latest_api_versions import Acknowledged
from decoders.wire.ledger import Ledger, SkipReason
from decoders.wire.patience import MAX_WAIT_SEGMENTS, Patience
from decoders.wire.recorder import Recorder, Run
from decoders.wire.segment import Segment, SocketAddress, TcpFlag
from decoders.wire.stream import (
    MAX_HELD,
    PIECE_COST,
    SEQUENCE_SPACE,
    Chunk,
    Gap,
    Stream,
    StreamSnapshot,
)

_OTHER = {
    Direction.TO_BROKER: Direction.TO_CLIENT,
    Direction.TO_CLIENT: Direction.TO_BROKER,
}
_SEEN_ENDINGS = (Closing.FIN, Closing.RST)
_OPENS_OR_CLOSES = TcpFlag.SYN | TcpFlag.FIN | TcpFlag.RST


class Opening(NamedTuple):
    """The client's SYN: its sequence number, and how many bytes it carries.

    A SYN with bytes is one of TCP Fast Open (RFC 7413): the SYN-ACK may acknowledge any part of them.
    """

    sequence: int
    size: int


class ConnectionSnapshot(NamedTuple):
    """The state of a connection that can be offloaded, without its ledger.

    `streams` has no stream of the server as long as its SYN-ACK is awaited. `closers` has the direction that
    was closed first, if one was, and up to which offset its sender had received the other one. `records` is
    None unless it is decrypted.
    """

    last_seen_at: int
    last_position: int
    counted_held: int
    streams: dict[Direction, StreamSnapshot]
    closers: dict[Direction, int]
    kafka: KafkaLayerSnapshot
    records: RecordsSnapshot | None


class Connection:
    """Follows one connection from its first captured segment to its end.

    `ledger` counts its bytes, and adds them to the given ledger as well. `counted_held` is the part of `held`
    that the tracker has counted, to bound memory. `opening` is the client's SYN, None if neither it nor the
    SYN-ACK was captured. `last_seen_at` is in nanoseconds since the epoch. With a key log TLS is
    decrypted.
    """

    def __init__(
        self,
        run: Run,
        detector: FrameDetector,
        ledger: Ledger,
        client: SocketAddress,
        server: SocketAddress,
        *,
        key_log: KeyLog | None = None,
    ) -> None:
        self.client = client
        self.server = server
        self.opening: Opening | None = None
        self.last_seen_at = 0
        self._last_position = 0
        self.is_closed = False
        self.ledger = Ledger(within=ledger)
        self.counted_held = 0
        self._recorder = Recorder(run, client, server)
        self._streams: dict[Direction, Stream] = {}
        self._closers: dict[Direction, int] = {}
        self._notified_by: Direction | None = None
        """The side that sent close_notify before any FIN or RST. The FIN of its peer may come first."""
        self._closing_position: int | None = None
        """The position of the first FIN or RST over TLS. A close_notify before it may wait for its key."""
        self._early: list[Segment] = []
        self._reset: Segment | None = None
        self._patience = Patience()
        self._decryption = None if key_log is None else Decryption(key_log, self.ledger)
        self._kafka = KafkaLayer(
            detector,
            self.ledger,
            self._recorder,
            self._acknowledged_by,
            decrypts=key_log is not None,
        )

    def continue_from(self, opened: Record, opening: Opening) -> None:
        """Continue a connection that another tracker opened with a SYN. Its state must then be restored."""
        self._recorder.continue_from(opened)
        self.opening = opening
        self.last_seen_at, self._last_position = opened.captured_at, opened.position

    def open(self, segment: Segment) -> Record:
        """Return the record OPENED. The same segment must then be passed to `process`."""
        self.opening = self._opening_in(segment)
        mid_stream = self.opening is None
        return self._recorder.opened(segment.captured_at, segment.position, mid_stream=mid_stream)

    def repeats(self, segment: Segment, opening: Opening | None) -> bool:
        """Whether a SYN or SYN-ACK between the same sockets is of the connection that was opened so."""
        found = self._opening_in(segment)
        if found is None or opening is None:
            return False
        acknowledged = 0 if self._direction(segment) is Direction.TO_BROKER else opening.size
        return (found.sequence - opening.sequence) % SEQUENCE_SPACE <= acknowledged

    def is_replaced_by(self, segment: Segment) -> bool:
        """Whether a segment opens another connection between the same sockets."""
        return bool(segment.flags & TcpFlag.SYN) and not self.repeats(segment, self.opening)

    def process(self, segment: Segment) -> Iterator[Record]:
        """Process the next segment of either direction."""
        self.ledger.capture(len(segment.payload))
        self.last_seen_at, self._last_position = segment.captured_at, segment.position
        if self._is_ordinary(segment):
            yield from self._process_ordinary(segment)
            return
        if self._is_early(segment):
            self._early.append(segment)
        else:
            yield from self._take(segment)
            if segment.flags & TcpFlag.SYN:
                yield from self._take_early()
        yield from self._close_if_ended()
        self._note_wait()
        while self._patience.segments > MAX_WAIT_SEGMENTS or self.buffered > MAX_HELD:
            yield from self.give_up()

    def _is_ordinary(self, segment: Segment) -> bool:
        """Whether a segment comes in its turn on a connection that waits for nothing.

        Most do. They need only a part of what is done for others, with the same result.
        """
        is_closing = self._closers or self._reset is not None
        is_waiting = self._early or self._patience.since is not None
        if segment.flags & _OPENS_OR_CLOSES or is_closing or is_waiting or len(self._streams) < len(_OTHER):
            return False
        direction = self._direction(segment)
        own, other = self._streams[direction], self._streams[_OTHER[direction]]
        is_known = other.offset_of(segment.acknowledgment) <= other.next_offset
        return own.is_continued_by(segment) and other.is_in_order and is_known

    def _process_ordinary(self, segment: Segment) -> Iterator[Record]:
        direction = self._direction(segment)
        behind = 0
        if segment.flags & TcpFlag.ACK:
            other = self._streams[_OTHER[direction]]
            other.acknowledge(segment.acknowledgment)
            behind = other.offset_of(segment.acknowledgment)
        if segment.payload:
            yield from self._process_event(direction, self._streams[direction].take(segment, behind))

    @property
    def waits_since(self) -> int | None:
        """When it began to wait for packets that are captured late, None if it does not wait."""
        return None if self.is_closed else self._patience.since

    def give_up(self) -> Iterator[Record]:
        """Wait no longer: take for lost what was awaited when the wait began."""
        ends = self._patience.ends
        self._patience.end()
        yield from self._take_early()
        for direction, stream in self._streams.items():
            while stream.next_offset < ends.get(direction, 0) and stream.has_lost_bytes:
                yield from self._lose(direction, ends[direction])
                yield from self._release()
        while self.buffered > MAX_HELD:
            yield from self._lose_next()
        if self._reset is not None:
            yield from self.close(Closing.RST, self.last_seen_at, self._last_position)
        elif self._has_ended:
            yield from self.close(Closing.FIN, self.last_seen_at, self._last_position)
        self._note_wait()

    def give_up_all(self) -> Iterator[Record]:
        """Wait for nothing any more."""
        while self.waits_since is not None:
            yield from self.give_up()

    @property
    def held(self) -> int:
        """Bytes of memory that buffered segments, incomplete frames and requests in flight take, roughly."""
        return 0 if self.is_closed else self._kafka.held + self.unprocessed

    @property
    def unprocessed(self) -> int:
        """The part of `held` that the Kafka layer does not have so far."""
        encrypted = self._decryption.held if self._decryption else 0
        return self.buffered + encrypted

    @property
    def decryption(self) -> Decryption | None:
        """What decrypts its bytes; None if it is not TLS, or cannot be read any more."""
        return self._decryption

    @property
    def awaits_key_since(self) -> int | None:
        """The capture time since which encrypted bytes wait for their key, None if none do."""
        return None if self._decryption is None else self._decryption.awaits_key_since

    def try_keys(self) -> Iterator[Record]:
        """Go on with encrypted bytes that are held, if their key is known meanwhile."""
        if self._decryption is not None:
            yield from self._process_decrypted(self._decryption.try_keys())

    def give_up_keys(self) -> Iterator[Record]:
        """Wait no longer for the key of encrypted bytes."""
        if self._decryption is not None:
            yield from self._process_decrypted(self._decryption.give_up_keys())

    @property
    def buffered(self) -> int:
        """The part of `held` that waits for packets that were not captured so far."""
        if self.is_closed:
            return 0
        early = sum(len(segment.payload) + PIECE_COST for segment in self._early) if self._early else 0
        for stream in self._streams.values():
            early += stream.held
        return early

    @property
    def identity(self) -> bytes:
        """The ID that all its records have."""
        return self._recorder.connection

    @property
    def can_be_offloaded(self) -> bool:
        """Whether its state is ordinary, so that a snapshot is complete and a flow can hold it."""
        streams = self._streams.values()
        decryption = self._decryption
        if decryption is not None and not (self._kafka.has_begun and decryption.can_be_read_ahead):
            return False
        waits = self._early or self._reset is not None
        is_closing = self._notified_by is not None or self._closing_position is not None
        has_begun = len(streams) == len(_OTHER) or not self._closers
        is_in_order = has_begun and all(stream.is_in_order for stream in streams)
        return self._kafka.can_be_offloaded and not (waits or is_closing) and is_in_order

    def snapshot(self) -> ConnectionSnapshot:
        """Return the state of a connection that can be offloaded."""
        streams = {direction: stream.snapshot() for direction, stream in self._streams.items()}
        seen = (self.last_seen_at, self._last_position, self.counted_held)
        records = None if self._decryption is None else self._decryption.snapshot()
        return ConnectionSnapshot(*seen, streams, self._closers, self._kafka.snapshot(), records)

    def restore(self, snapshot: ConnectionSnapshot, *, has_new_frames: bool) -> None:
        """Continue from a snapshot. `has_new_frames` if another tracker recorded frames since."""
        self.last_seen_at, self._last_position, self.counted_held, streams, closers, kafka, records = snapshot
        self._closers = closers
        if self._decryption is not None and records is not None:
            self._decryption.restore(records)
        elif not kafka.is_opening:
            # Another tracker has read plaintext.
            self._decryption = None
        for direction, stream in streams.items():
            if direction not in self._streams:
                self._streams[direction] = Stream(self.ledger, stream.sequence)
                self._kafka.begin(direction, from_start=True)
            self._streams[direction].restore(stream)
        self._kafka.restore(kafka, has_new_frames=has_new_frames)

    def flush(self) -> Iterator[Record]:
        """Yield the records of all held bytes: no more segments will be captured."""
        yield from self._take_early()
        while any(stream.held or stream.has_lost_bytes for stream in self._streams.values()):
            yield from self._lose_next()
        if self._decryption is not None:
            yield from self._process_decrypted(self._decryption.finish())
        self._kafka.close()

    def close(self, closing: Closing, captured_at: int, position: int) -> Iterator[Record]:
        """Yield the last records, up to CLOSED. Its direction is that of the first FIN or RST."""
        self.is_closed = True
        yield from self.flush()
        if closing in _SEEN_ENDINGS:
            yield from self._kafka.record_other_protocol(has_response=self._has_response)
        yield self.end(closing, self._first_to_close, captured_at, position)

    def end(self, closing: Closing, closer: Direction, captured_at: int, position: int) -> Record:
        """Return the record CLOSED of a connection that holds nothing. `closer` was closed first."""
        self.is_closed = True
        return self._recorder.record(Kind.CLOSED, captured_at, position, closing=closing, direction=closer)

    @property
    def _has_response(self) -> bool:
        """Whether the broker sent anything, captured or not."""
        stream = self._streams.get(Direction.TO_CLIENT)
        return stream is not None and stream.next_offset > 0

    def _process_event(self, direction: Direction, event: Chunk | Gap) -> Iterator[Record]:
        """Process the next bytes or the next gap of a direction."""
        if self._decryption is None:
            yield from self._kafka.process(direction, event)
        else:
            yield from self._process_decrypted(self._decryption.process(direction, event))

    def _process_decrypted(self, passed: Iterator[tuple[Direction, Passed]]) -> Iterator[Record]:
        for direction, event in passed:
            if isinstance(event, Unreadable):
                beginning, captured_at, position = event
                yield from self._kafka.abandon_encrypted(direction, beginning, captured_at, position)
            elif isinstance(event, CloseNotify):
                self._note_close_notify(direction, event)
            else:
                yield from self._kafka.process(direction, event)
        if self._decryption is not None and (self._decryption.is_over or self._kafka.is_opaque):
            self._decryption.close()
            self._decryption = None

    def _opening_in(self, segment: Segment) -> Opening | None:
        """Return the client's SYN, from itself or from the SYN-ACK, None for other segments."""
        if not segment.flags & TcpFlag.SYN:
            return None
        if self._direction(segment) is Direction.TO_BROKER:
            return Opening(segment.sequence, len(segment.payload) + segment.missing)
        return Opening((segment.acknowledgment - 1) % SEQUENCE_SPACE, 0)

    def _direction(self, segment: Segment) -> Direction:
        return Direction.TO_BROKER if segment.source == self.client else Direction.TO_CLIENT

    def _is_early(self, segment: Segment) -> bool:
        """Whether the SYN or SYN-ACK that begins the stream of either direction is still to be captured."""
        opens_or_resets = segment.flags & (TcpFlag.SYN | TcpFlag.RST)
        return self.opening is not None and not opens_or_resets and len(self._streams) < len(_OTHER)

    def _take_early(self) -> Iterator[Record]:
        early, self._early = self._early, []
        for segment in early:
            yield from self._take(segment)

    def _take(self, segment: Segment) -> Iterator[Record]:
        if segment.flags & TcpFlag.RST:
            self.ledger.skip(SkipReason.AFTER_CLOSE, len(segment.payload))
            self._note_closing(segment)
            self._reset = self._reset or segment
            return
        yield from self._process_acknowledgment(segment)
        yield from self._process_payload(segment)
        yield from self._release()

    def _process_acknowledgment(self, segment: Segment) -> Iterator[Record]:
        if not segment.flags & TcpFlag.ACK:
            return
        direction = _OTHER[self._direction(segment)]
        if direction not in self._streams:
            yield from self._begin(direction, segment.acknowledgment, segment)
        self._streams[direction].acknowledge(segment.acknowledgment)

    def _process_payload(self, segment: Segment) -> Iterator[Record]:
        direction = self._direction(segment)
        if direction not in self._streams:
            first_byte = segment.sequence + bool(segment.flags & TcpFlag.SYN)
            yield from self._begin(direction, first_byte, segment)
        if segment.flags & TcpFlag.FIN:
            self._note_closing(segment)
        for event in self._streams[direction].push(segment, self._acknowledged_in(segment)):
            yield from self._process_event(direction, event)

    def _acknowledged_in(self, segment: Segment) -> int:
        """Return the offset in the other direction up to which a segment's sender has received the bytes."""
        other = self._streams.get(_OTHER[self._direction(segment)])
        return other.offset_of(segment.acknowledgment) if other and segment.flags & TcpFlag.ACK else 0

    def _note_closing(self, segment: Segment) -> None:
        if not self._closers and self._decryption is not None:
            self._closing_position = segment.position
        self._closers.setdefault(self._direction(segment), self._acknowledged_in(segment))

    def _note_close_notify(self, direction: Direction, event: CloseNotify) -> None:
        """Note who closed first. The alert may have waited for its key, behind a FIN that came later."""
        closed_at = self._closing_position
        is_first = not self._closers or (closed_at is not None and event.position < closed_at)
        if is_first and self._notified_by is None:
            self._notified_by = direction

    @property
    def _first_to_close(self) -> Direction:
        """The direction of the first close_notify, FIN or RST. Another FIN may have been captured before."""
        if self._notified_by is not None:
            return self._notified_by
        first, *others = (*self._closers, Direction.NONE)
        second = others[0] if others else Direction.NONE
        if second in self._streams and self._streams[second].is_end_behind(self._closers[first]):
            return second
        return first

    def _release(self) -> Iterator[Record]:
        """Pass on what is next in either direction, each chunk after what its sender had received."""
        goes_on = True
        while goes_on:
            goes_on = False
            for direction, stream in self._streams.items():
                if not stream.is_blocked:
                    continue
                for event in stream.release(self._streams.get(_OTHER[direction])):
                    goes_on = True
                    yield from self._process_event(direction, event)
            if not goes_on and all(stream.is_blocked for stream in self._streams.values()):
                # No TCP sends bytes of both directions each of which acknowledges the other.
                goes_on = True
                direction, stream = next(iter(self._streams.items()))
                for event in stream.release_first():
                    yield from self._process_event(direction, event)

    def _lose(self, direction: Direction, end: int) -> Iterator[Record]:
        for event in self._streams[direction].give_up(end, self.last_seen_at, self._last_position):
            yield from self._process_event(direction, event)

    def _lose_next(self) -> Iterator[Record]:
        """Take the next missing bytes of both directions for lost, acknowledged or not."""
        for direction, stream in self._streams.items():
            yield from self._lose(direction, max(stream.awaited_end, stream.first_held))
        yield from self._release()

    def _note_wait(self) -> None:
        """Begin or end to wait, or go on."""
        patience = self._patience
        patience.segments += 1
        ends = {each: stream.awaited_end for each, stream in self._streams.items() if stream.has_lost_bytes}
        is_held_up = bool(self._early) or self._reset is not None
        if not ends and not is_held_up:
            patience.end()
        elif patience.since is None or not (
            is_held_up or any(self._streams[each].next_offset < patience.ends.get(each, 0) for each in ends)
        ):
            patience.begin(self.last_seen_at, ends)

    @property
    def _has_ended(self) -> bool:
        if len(self._closers) < len(_OTHER):
            return False
        streams = self._streams.values()
        return len(streams) == len(_OTHER) and all(stream.is_finished for stream in streams)

    def _close_if_ended(self) -> Iterator[Record]:
        """Close the connection if its end was captured, and all bytes before."""
        if self._reset is not None and not self._awaits_before(self._reset):
            yield from self.close(Closing.RST, self.last_seen_at, self._last_position)
        elif self._has_ended:
            yield from self.close(Closing.FIN, self.last_seen_at, self._last_position)

    def _awaits_before(self, reset: Segment) -> bool:
        """Whether bytes that passed before a RST are not captured so far."""
        own, other = self._direction(reset), _OTHER[self._direction(reset)]
        numbers = {own: reset.sequence}
        if reset.flags & TcpFlag.ACK:
            numbers[other] = reset.acknowledgment
        streams = self._streams.items()
        return bool(self._early) or any(
            stream.held or (each in numbers and not stream.has_reached(stream.offset_of(numbers[each])))
            for each, stream in streams
        )

    def _begin(self, direction: Direction, first_byte: int, segment: Segment) -> Iterator[Record]:
        """Set up a direction at the first segment that shows its sequence numbers."""
        from_start = bool(segment.flags & TcpFlag.SYN)
        self._streams[direction] = Stream(self.ledger, first_byte % SEQUENCE_SPACE)
        self._kafka.begin(direction, from_start=from_start)
        if self.opening is not None and not from_start:
            yield from self._kafka.record_missed_beginning(direction, segment.captured_at, segment.position)

    def _acknowledged_by(self, number: int) -> Acknowledged:
        responses = self._streams[Direction.TO_CLIENT]
        offset, end = responses.offset_of(number), responses.next_offset
        if self._decryption is not None and not self._decryption.is_over:
            end = self._decryption.stream(Direction.TO_CLIENT).read_until
        return Acknowledged(offset, everything=offset >= end)
