"""One connection: its segments in, its records out.

`Transport` puts what the segments carry in order, `Decryption` reads TLS, `KafkaLayer` makes the records.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from decoders.frame.record import Closing, Direction, Kind, Record
from decoders.tls.key_log import KeyLog
from decoders.wire.closing_sides import ClosingSides
from decoders.wire.decrypted import CloseNotify, Passed, RecordsSnapshot, Unreadable
from decoders.wire.decryption import Decryption
from decoders.wire.frame_detector import FrameDetector
from decoders.wire.kafka_layer import KafkaLayer, KafkaLayerSnapshot
from decoders.wire.latest_api_versions import Acknowledged
from decoders.wire.ledger import Ledger
from decoders.wire.opening import Opening, opening_in
from decoders.wire.recorder import Recorder, Run
from decoders.wire.segment import Segment, SocketAddress, TcpFlag
from decoders.wire.stream import Chunk, Gap, StreamSnapshot
from decoders.wire.transport import Begun, Event, SideClosed, Transport


class ConnectionSnapshot(NamedTuple):
    """The state of a connection that can be offloaded, without its ledger.

    `streams` has no stream of the server as long as its SYN-ACK is awaited. `closers` is that of its closing
    sides. `records` is None unless it is decrypted.
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
    SYN-ACK was captured. `last_seen_at` is in nanoseconds since the epoch. With a key log TLS is decrypted:
    by `decryption`, which is None if the connection is not TLS, or cannot be read any more.
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
        self._transport = Transport(self.ledger)
        self._closing_sides = ClosingSides()
        self.decryption = None if key_log is None else Decryption(key_log, self.ledger)
        self._kafka = KafkaLayer(
            detector, self.ledger, self._recorder, self._acknowledged_by, decrypts=key_log is not None
        )

    def continue_from(self, opened: Record, opening: Opening) -> None:
        """Continue a connection that another tracker opened with a SYN. Its state must then be restored."""
        self._recorder.continue_from(opened)
        self.opening = opening
        self.last_seen_at, self._last_position = opened.captured_at, opened.position

    def open(self, segment: Segment) -> Record:
        """Return the record OPENED. The same segment must then be passed to `process`."""
        self.opening = opening_in(self._direction(segment), segment)
        return self._recorder.opened(segment.captured_at, segment.position, mid_stream=self.opening is None)

    def repeats(self, segment: Segment, opening: Opening | None) -> bool:
        """Whether a SYN or SYN-ACK between the same sockets is of the connection that was opened so."""
        return opening is not None and opening.is_repeated_by(self._direction(segment), segment)

    def is_replaced_by(self, segment: Segment) -> bool:
        """Whether a segment opens another connection between the same sockets."""
        return bool(segment.flags & TcpFlag.SYN) and not self.repeats(segment, self.opening)

    def process(self, segment: Segment) -> Iterator[Record]:
        """Process the next segment of either direction."""
        self.ledger.capture(len(segment.payload))
        self.last_seen_at, self._last_position = segment.captured_at, segment.position
        direction, transport = self._direction(segment), self._transport
        if transport.is_ordinary(direction, segment):
            chunk = transport.take(direction, segment)
            if chunk is not None:
                yield from self._process_bytes(direction, chunk)
        else:
            yield from self._process_events(transport.process(direction, segment))
            yield from self._close_if_ended()

    @property
    def waits_since(self) -> int | None:
        """When it began to wait for packets that are captured late, None if it does not wait."""
        return None if self.is_closed else self._transport.waits_since

    def give_up(self) -> Iterator[Record]:
        """Wait no longer: take for lost what was awaited when the wait began."""
        yield from self._process_events(self._transport.give_up(self.last_seen_at, self._last_position))
        yield from self._close_if_ended()

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
        buffered = 0 if self.is_closed else self._transport.held
        return buffered + (self.decryption.held if self.decryption else 0)

    @property
    def awaits_key_since(self) -> int | None:
        """The capture time since which encrypted bytes wait for their key, None if none do."""
        return None if self.decryption is None else self.decryption.awaits_key_since

    def try_keys(self) -> Iterator[Record]:
        """Go on with encrypted bytes that are held, if their key is known meanwhile."""
        if self.decryption is not None:
            yield from self._process_decrypted(self.decryption.try_keys())

    def give_up_keys(self) -> Iterator[Record]:
        """Wait no longer for the key of encrypted bytes."""
        if self.decryption is not None:
            yield from self._process_decrypted(self.decryption.give_up_keys())

    @property
    def identity(self) -> bytes:
        """The ID that all its records have."""
        return self._recorder.connection

    @property
    def can_be_offloaded(self) -> bool:
        """Whether its state is ordinary, so that a snapshot is complete and a flow can hold it."""
        if self.decryption is not None and not (self._kafka.has_begun and self.decryption.can_be_read_ahead):
            return False
        is_ordinary = self._transport.can_be_offloaded and self._closing_sides.can_be_offloaded
        return is_ordinary and self._kafka.can_be_offloaded

    def snapshot(self) -> ConnectionSnapshot:
        """Return the state of a connection that can be offloaded."""
        streams = {direction: stream.snapshot() for direction, stream in self._transport.streams.items()}
        seen = (self.last_seen_at, self._last_position, self.counted_held)
        records = None if self.decryption is None else self.decryption.snapshot()
        closers, kafka = self._closing_sides.closers, self._kafka.snapshot()
        return ConnectionSnapshot(*seen, streams, closers, kafka, records)

    def restore(self, snapshot: ConnectionSnapshot, *, has_new_frames: bool) -> None:
        """Continue from a snapshot. `has_new_frames` if another tracker recorded frames since."""
        self.last_seen_at, self._last_position, self.counted_held, streams, closers, kafka, records = snapshot
        self._closing_sides.closers = closers
        if self.decryption is not None and records is not None:
            self.decryption.restore(records)
        elif not kafka.is_opening:
            # Another tracker has read plaintext.
            self.decryption = None
        for direction in streams:
            if direction not in self._transport.streams:
                self._kafka.begin(direction, from_start=True)
        self._transport.restore(streams)
        self._kafka.restore(kafka, has_new_frames=has_new_frames)

    def flush(self) -> Iterator[Record]:
        """Yield the records of all held bytes: no more segments will be captured."""
        yield from self._process_events(self._transport.flush(self.last_seen_at, self._last_position))
        if self.decryption is not None:
            yield from self._process_decrypted(self.decryption.finish())
        self._kafka.close()

    def close(self, closing: Closing, captured_at: int, position: int) -> Iterator[Record]:
        """Yield the last records, up to CLOSED. Its direction is that of the first FIN or RST."""
        self.is_closed = True
        yield from self.flush()
        streams = self._transport.streams
        if self._transport.ending is not None:
            responses = streams.get(Direction.TO_CLIENT)
            has_response = responses is not None and responses.next_offset > 0
            yield from self._kafka.record_other_protocol(has_response=has_response)
        yield self.end(closing, self._closing_sides.first(streams), captured_at, position)

    def end(self, closing: Closing, closer: Direction, captured_at: int, position: int) -> Record:
        """Return the record CLOSED of a connection that holds nothing. `closer` was closed first."""
        self.is_closed = True
        return self._recorder.record(Kind.CLOSED, captured_at, position, closing=closing, direction=closer)

    def _close_if_ended(self) -> Iterator[Record]:
        """Close the connection if its end was captured, and no bytes before that are awaited."""
        if (ending := self._transport.ending) is not None:
            yield from self.close(ending, self.last_seen_at, self._last_position)

    def _process_events(self, events: Iterator[tuple[Direction, Event]]) -> Iterator[Record]:
        for direction, event in events:
            if isinstance(event, Begun):
                self._kafka.begin(direction, from_start=event.from_start)
                if self.opening is not None and not event.from_start:
                    place = event.captured_at, event.position
                    yield from self._kafka.record_missed_beginning(direction, *place)
            elif isinstance(event, SideClosed):
                self._closing_sides.note_closed(direction, *event, over_tls=self.decryption is not None)
            else:
                yield from self._process_bytes(direction, event)

    def _process_bytes(self, direction: Direction, event: Chunk | Gap) -> Iterator[Record]:
        if self.decryption is None:
            yield from self._kafka.process(direction, event)
        else:
            yield from self._process_decrypted(self.decryption.process(direction, event))

    def _process_decrypted(self, passed: Iterator[tuple[Direction, Passed]]) -> Iterator[Record]:
        for direction, event in passed:
            if isinstance(event, Unreadable):
                beginning, captured_at, position = event
                yield from self._kafka.abandon_encrypted(direction, beginning, captured_at, position)
            elif isinstance(event, CloseNotify):
                self._closing_sides.note_close_notify(direction, event.position)
            else:
                yield from self._kafka.process(direction, event)
        if self.decryption is not None and (self.decryption.is_over or self._kafka.is_opaque):
            self.decryption.close()
            self.decryption = None

    def _direction(self, segment: Segment) -> Direction:
        return Direction.TO_BROKER if segment.source == self.client else Direction.TO_CLIENT

    def _acknowledged_by(self, number: int) -> Acknowledged:
        responses = self._transport.streams[Direction.TO_CLIENT]
        offset, end = responses.offset_of(number), responses.next_offset
        if self.decryption is not None and not self.decryption.is_over:
            end = self.decryption.stream(Direction.TO_CLIENT).read_until
        return Acknowledged(offset, everything=offset >= end)
