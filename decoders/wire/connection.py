"""One TCP connection: its two streams, its Kafka layer, how it was opened and how it was closed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from decoders.frame.record import Closing, Direction, Kind, Record
from decoders.wire.frame_detector import FrameDetector
from decoders.wire.kafka_layer import Acknowledged, KafkaLayer, KafkaLayerSnapshot
from decoders.wire.ledger import Ledger, SkipReason
from decoders.wire.recorder import Recorder, Run
from decoders.wire.segment import Segment, SocketAddress, TcpFlag
from decoders.wire.stream import SEQUENCE_SPACE, Stream, StreamSnapshot

_OTHER = {
    Direction.TO_BROKER: Direction.TO_CLIENT,
    Direction.TO_CLIENT: Direction.TO_BROKER,
}
_SEEN_ENDINGS = (Closing.FIN, Closing.RST)


class ConnectionSnapshot(NamedTuple):
    """The state of a connection that can be offloaded, without its ledger."""

    last_seen_at: int
    last_position: int
    counted_held: int
    streams: dict[Direction, StreamSnapshot]
    kafka: KafkaLayerSnapshot


class Connection:
    """Follows one connection from its first captured segment to its end.

    `ledger` counts its bytes, and adds them to the given ledger as well. `counted_held` is the part of `held`
    that the tracker has counted, to bound memory. `initial_sequence` is the sequence number of the client's
    SYN, None if it was not captured. `last_seen_at` is in nanoseconds since the epoch.
    """

    def __init__(
        self, run: Run, detector: FrameDetector, ledger: Ledger, client: SocketAddress, server: SocketAddress
    ) -> None:
        self.client = client
        self.server = server
        self.initial_sequence: int | None = None
        self.last_seen_at = 0
        self._last_position = 0
        self.is_closed = False
        self.ledger = Ledger(within=ledger)
        self.counted_held = 0
        self._recorder = Recorder(run, client, server)
        self._streams: dict[Direction, Stream] = {}
        self._first_to_close = Direction.NONE
        self._kafka = KafkaLayer(detector, self.ledger, self._recorder, self._acknowledged_by)

    def open(self, segment: Segment) -> Record:
        """Return the record OPENED. The same segment must then be passed to `process`."""
        self.initial_sequence = self.initial_sequence_in(segment)
        mid_stream = self.initial_sequence is None
        return self._recorder.opened(segment.captured_at, segment.position, mid_stream=mid_stream)

    def initial_sequence_in(self, segment: Segment) -> int | None:
        """Return the client's initial sequence number from a SYN or SYN-ACK, None for other segments."""
        if not segment.flags & TcpFlag.SYN:
            return None
        if self._direction(segment) is Direction.TO_BROKER:
            return segment.sequence
        return (segment.acknowledgment - 1) % SEQUENCE_SPACE

    def is_replaced_by(self, segment: Segment) -> bool:
        """Whether a segment opens another connection between the same sockets."""
        initial = self.initial_sequence_in(segment)
        return initial is not None and initial != self.initial_sequence

    def process(self, segment: Segment) -> Iterator[Record]:
        """Process the next segment of either direction."""
        self.ledger.capture(len(segment.payload))
        self.last_seen_at, self._last_position = segment.captured_at, segment.position
        if segment.flags & TcpFlag.RST:
            self.ledger.skip(SkipReason.AFTER_CLOSE, len(segment.payload))
            self._first_to_close = self._first_to_close or self._direction(segment)
            yield from self.close(Closing.RST, segment.captured_at, segment.position)
            return
        yield from self._process_acknowledgment(segment)
        yield from self._process_payload(segment)
        if len(self._streams) == len(_OTHER) and all(stream.is_finished for stream in self._streams.values()):
            yield from self.close(Closing.FIN, segment.captured_at, segment.position)

    @property
    def held(self) -> int:
        """Bytes of memory that buffered segments, incomplete frames and requests in flight take, roughly."""
        if self.is_closed:
            return 0
        return self._kafka.held + sum(stream.held for stream in self._streams.values())

    @property
    def identity(self) -> bytes:
        """The ID that all its records have."""
        return self._recorder.connection

    @property
    def can_be_offloaded(self) -> bool:
        """Whether its state is ordinary, so that a snapshot is complete and a flow can hold it."""
        streams = self._streams.values()
        return self._kafka.can_be_offloaded and all(stream.is_in_order for stream in streams)

    def snapshot(self) -> ConnectionSnapshot:
        """Return the state of a connection that can be offloaded."""
        streams = {direction: stream.snapshot() for direction, stream in self._streams.items()}
        seen = (self.last_seen_at, self._last_position, self.counted_held)
        return ConnectionSnapshot(*seen, streams, self._kafka.snapshot())

    def restore(self, snapshot: ConnectionSnapshot, *, has_new_frames: bool) -> None:
        """Continue from a snapshot. `has_new_frames` if another tracker recorded frames since."""
        self.last_seen_at, self._last_position, self.counted_held, streams, kafka = snapshot
        for direction, stream in streams.items():
            self._streams[direction].restore(stream)
        self._kafka.restore(kafka, has_new_frames=has_new_frames)

    def flush(self) -> Iterator[Record]:
        """Yield the records of all held bytes: no more segments will be captured."""
        for direction, stream in self._streams.items():
            for event in stream.close(self.last_seen_at, self._last_position):
                yield from self._kafka.process(direction, event)
        self._kafka.close()

    def close(self, closing: Closing, captured_at: int, position: int) -> Iterator[Record]:
        """Yield the last records, up to CLOSED. Its direction is that of the first FIN or RST."""
        self.is_closed = True
        yield from self.flush()
        if closing in _SEEN_ENDINGS:
            yield from self._kafka.record_other_protocol(has_response=self._has_response)
        yield self._recorder.record(
            Kind.CLOSED, captured_at, position, closing=closing, direction=self._first_to_close
        )

    @property
    def _has_response(self) -> bool:
        """Whether the broker sent anything, captured or not."""
        stream = self._streams.get(Direction.TO_CLIENT)
        return stream is not None and stream.snapshot().offset > 0

    def _direction(self, segment: Segment) -> Direction:
        return Direction.TO_BROKER if segment.source == self.client else Direction.TO_CLIENT

    def _process_acknowledgment(self, segment: Segment) -> Iterator[Record]:
        if not segment.flags & TcpFlag.ACK:
            return
        direction = _OTHER[self._direction(segment)]
        if direction not in self._streams:
            yield from self._begin(direction, segment.acknowledgment, segment)
        stream = self._streams[direction]
        for event in stream.acknowledge(segment.acknowledgment, segment.captured_at, segment.position):
            yield from self._kafka.process(direction, event)

    def _process_payload(self, segment: Segment) -> Iterator[Record]:
        direction = self._direction(segment)
        if direction not in self._streams:
            first_byte = segment.sequence + bool(segment.flags & TcpFlag.SYN)
            yield from self._begin(direction, first_byte, segment)
        stream = self._streams[direction]
        if segment.flags & TcpFlag.FIN:
            self._first_to_close = self._first_to_close or direction
        for event in stream.push(segment):
            yield from self._kafka.process(direction, event)

    def _begin(self, direction: Direction, first_byte: int, segment: Segment) -> Iterator[Record]:
        """Set up a direction at the first segment that shows its sequence numbers."""
        from_start = bool(segment.flags & TcpFlag.SYN)
        self._streams[direction] = Stream(self.ledger, first_byte % SEQUENCE_SPACE)
        self._kafka.begin(direction, from_start=from_start)
        if self.initial_sequence is not None and not from_start:
            yield from self._kafka.record_missed_beginning(direction, segment.captured_at, segment.position)

    def _acknowledged_by(self, number: int) -> Acknowledged:
        responses = self._streams[Direction.TO_CLIENT]
        offset = responses.offset_of(number)
        return Acknowledged(offset, everything=offset >= responses.next_offset)
