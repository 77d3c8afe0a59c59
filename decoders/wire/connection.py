"""One TCP connection: its two streams, how it began and how it ended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from decoders.frame.record import Closing, Direction, Kind, Record
from decoders.wire.dialogue import Dialogue, DialogueState
from decoders.wire.evidence import Evidence
from decoders.wire.ledger import Ledger, Reason
from decoders.wire.recorder import Recorder, Run
from decoders.wire.segment import Segment, SocketAddress, TcpFlag
from decoders.wire.stream import SEQUENCE_SPACE, Place, Stream

_OTHER = {
    Direction.TO_BROKER: Direction.TO_CLIENT,
    Direction.TO_CLIENT: Direction.TO_BROKER,
}


class ConnectionState(NamedTuple):
    """All that a calm connection holds, but its ledger."""

    last_seen_at: int
    last_position: int
    accounted: int
    places: dict[Direction, Place]
    dialogue: DialogueState


class Connection:
    """Follows one connection from its first segment seen to its end.

    `ledger` books its bytes, and books them in the one given as well. `accounted` is for whoever bounds
    memory: what of `held` is counted already. `initial_sequence` is the sequence number of the client's
    SYN, None where it was not seen.
    """

    def __init__(
        self, run: Run, evidence: Evidence, ledger: Ledger, client: SocketAddress, server: SocketAddress
    ) -> None:
        self.client = client
        self.server = server
        self.initial_sequence: int | None = None
        self.last_seen_at = 0
        self._last_position = 0
        self.is_closed = False
        self.ledger = Ledger(within=ledger)
        self.accounted = 0
        self._recorder = Recorder(run, client, server)
        self._streams: dict[Direction, Stream] = {}
        self._first_to_close = Direction.NONE
        self._dialogue = Dialogue(evidence, self.ledger, self._recorder, self._place_in_answers)

    def open(self, segment: Segment) -> Record:
        """Begin with the first segment that was seen, which `hear` must be given next."""
        self.initial_sequence = self.initial_sequence_in(segment)
        mid_stream = self.initial_sequence is None
        return self._recorder.opened(segment.captured_at, segment.position, mid_stream=mid_stream)

    def initial_sequence_in(self, segment: Segment) -> int | None:
        """Read the client's initial sequence number off a SYN or SYN-ACK; None of other segments."""
        if not segment.flags & TcpFlag.SYN:
            return None
        if self._direction(segment) is Direction.TO_BROKER:
            return segment.sequence
        return (segment.acknowledgment - 1) % SEQUENCE_SPACE

    def is_replaced_by(self, segment: Segment) -> bool:
        """Whether a segment begins another connection between the same sockets."""
        initial = self.initial_sequence_in(segment)
        return initial is not None and initial != self.initial_sequence

    def hear(self, segment: Segment) -> Iterator[Record]:
        """Take the next segment of either direction."""
        self.ledger.capture(len(segment.payload))
        self.last_seen_at, self._last_position = segment.captured_at, segment.position
        if segment.flags & TcpFlag.RST:
            self.ledger.skip(Reason.AFTER_CLOSE, len(segment.payload))
            self._first_to_close = self._first_to_close or self._direction(segment)
            yield from self.close(Closing.RST, segment.captured_at, segment.position)
            return
        yield from self._hear_acknowledgment(segment)
        yield from self._hear_payload(segment)
        if len(self._streams) == len(_OTHER) and all(stream.is_finished for stream in self._streams.values()):
            yield from self.close(Closing.FIN, segment.captured_at, segment.position)

    @property
    def held(self) -> int:
        """How much memory waits for other segments, the rest of a frame or answers, in bytes, roughly."""
        if self.is_closed:
            return 0
        return self._dialogue.held + sum(stream.held for stream in self._streams.values())

    @property
    def identity(self) -> bytes:
        """The ID that all its records carry."""
        return self._recorder.connection

    @property
    def is_calm(self) -> bool:
        """Whether nothing is out of the ordinary: then a snapshot tells all that it holds."""
        streams = self._streams.values()
        return self._dialogue.is_calm and all(stream.is_in_order for stream in streams)

    def snapshot(self) -> ConnectionState:
        """Give all that a calm connection holds."""
        places = {direction: stream.snapshot() for direction, stream in self._streams.items()}
        seen = (self.last_seen_at, self._last_position, self.accounted)
        return ConnectionState(*seen, places, self._dialogue.snapshot())

    def restore(self, state: ConnectionState, *, told: bool) -> None:
        """Go on from a snapshot of the same connection; `told` says that others told frames of it."""
        self.last_seen_at, self._last_position, self.accounted, places, dialogue = state
        for direction, place in places.items():
            self._streams[direction].restore(place)
        self._dialogue.restore(dialogue, told=told)

    def flush(self) -> Iterator[Record]:
        """Give what may still be given when nothing more will come."""
        for direction, stream in self._streams.items():
            for event in stream.close(self.last_seen_at, self._last_position):
                yield from self._dialogue.take(direction, event)
        self._dialogue.close()

    def close(self, closing: Closing, captured_at: int, position: int) -> Iterator[Record]:
        """End the connection. The direction of the record is that of the first FIN or RST."""
        self.is_closed = True
        yield from self.flush()
        yield self._recorder.record(
            Kind.CLOSED, captured_at, position, closing=closing, direction=self._first_to_close
        )

    def _direction(self, segment: Segment) -> Direction:
        return Direction.TO_BROKER if segment.source == self.client else Direction.TO_CLIENT

    def _hear_acknowledgment(self, segment: Segment) -> Iterator[Record]:
        if not segment.flags & TcpFlag.ACK:
            return
        direction = _OTHER[self._direction(segment)]
        if direction not in self._streams:
            yield from self._begin(direction, segment.acknowledgment, segment)
        stream = self._streams[direction]
        for event in stream.acknowledge(segment.acknowledgment, segment.captured_at, segment.position):
            yield from self._dialogue.take(direction, event)

    def _hear_payload(self, segment: Segment) -> Iterator[Record]:
        direction = self._direction(segment)
        if direction not in self._streams:
            first_byte = segment.sequence + bool(segment.flags & TcpFlag.SYN)
            yield from self._begin(direction, first_byte, segment)
        stream = self._streams[direction]
        if segment.flags & TcpFlag.FIN:
            self._first_to_close = self._first_to_close or direction
        for event in stream.push(segment):
            yield from self._dialogue.take(direction, event)

    def _begin(self, direction: Direction, first_byte: int, segment: Segment) -> Iterator[Record]:
        """Set a direction up at the first segment that tells its sequence numbers."""
        from_start = bool(segment.flags & TcpFlag.SYN)
        self._streams[direction] = Stream(self.ledger, first_byte % SEQUENCE_SPACE)
        self._dialogue.begin(direction, from_start=from_start)
        if self.initial_sequence is not None and not from_start:
            yield from self._dialogue.miss_beginning(direction, segment.captured_at, segment.position)

    def _place_in_answers(self, acknowledgment: int) -> int:
        return self._streams[Direction.TO_CLIENT].offset_of(acknowledgment)
