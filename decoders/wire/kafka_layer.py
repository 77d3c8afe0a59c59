"""The Kafka layer of one connection: chunks and gaps of both directions → records.

A framer cuts each direction into frames, and the frame recorder makes their records. Where bytes were lost a
GAP is recorded. Once the connection is opaque, all further bytes are skipped: `opacity` says why.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from decoders.frame.record import Direction, Kind, Record
from decoders.wire.assembly import AssemblySnapshot, Frame, InvalidSize
from decoders.wire.frame_detector import FrameDetector
from decoders.wire.frame_recorder import FrameRecorder
from decoders.wire.framing import Framed, Framer, FramerState, Loss, NoRequest
from decoders.wire.latest_api_versions import AcknowledgedBy, ApiVersionsResponse
from decoders.wire.ledger import Ledger, SkipReason
from decoders.wire.opacity import Opacity
from decoders.wire.pairing import RequestsInFlightSnapshot
from decoders.wire.recorder import Recorder
from decoders.wire.stream import Chunk, Gap, UnsizedGap

_DIRECTIONS = (Direction.TO_BROKER, Direction.TO_CLIENT)
_BEGINNING = {FramerState.OPENING, FramerState.SYNCHRONISED}
_ORDINARY = ({FramerState.SYNCHRONISED}, {FramerState.OPAQUE})
"""The states of both framers while no boundary is sought."""


class KafkaLayerSnapshot(NamedTuple):
    """The state of a Kafka layer that can be offloaded; `frames` are those under assembly.

    `is_opening` means that the client has not sent anything so far.
    """

    in_flight: RequestsInFlightSnapshot
    api_versions: ApiVersionsResponse | None
    is_opening: bool
    is_opaque: bool
    is_excluded: bool
    is_encrypted: bool
    frames: dict[Direction, AssemblySnapshot | None]


class KafkaLayer:
    """The Kafka layer of one connection. `begin` must be called for a direction before `process`.

    `decrypts` is true if there is a key log.
    """

    def __init__(
        self,
        detector: FrameDetector,
        ledger: Ledger,
        recorder: Recorder,
        acknowledged_by: AcknowledgedBy,
        *,
        decrypts: bool = False,
    ) -> None:
        self._detector = detector
        self._ledger = ledger
        self._recorder = recorder
        self._framers: dict[Direction, Framer] = {}
        self._frame_recorder = FrameRecorder(detector, recorder, acknowledged_by)
        self._opacity = Opacity(detector, ledger, recorder, decrypts=decrypts)

    def begin(self, direction: Direction, *, from_start: bool) -> None:
        """Set up a direction; `from_start` is false if its first bytes may have been missed."""
        resumes = self._resumes_responses
        if direction is Direction.TO_BROKER:
            resumes = self._detector.resumes_requests
        self._framers[direction] = Framer(
            self._ledger,
            self._first_state(direction, from_start),
            opens=self._detector.opens,
            resumes=resumes,
            is_other_protocol=self._opacity.is_tls,
            other_protocol_reason=self._opacity.reason_if_tls,
            max_frame=self._detector.max_frame,
        )
        if self._opacity.is_excluded or self._opacity.is_encrypted:
            self._framers[direction].abandon(self._opacity.reason)
        if not from_start:
            self._frame_recorder.note_loss(direction)

    def record_missed_beginning(
        self, direction: Direction, captured_at: int, position: int
    ) -> Iterator[Record]:
        """Yield a GAP: the direction may have begun before its first captured segment."""
        if self._framers[direction].state is not FramerState.OPAQUE:
            yield from self._record_loss(direction, Loss(0, captured_at, position))

    def process(self, direction: Direction, event: Chunk | Gap | UnsizedGap) -> Iterator[Record]:
        """Process the next bytes or the next gap of a direction."""
        framer = self._framers[direction]
        if isinstance(event, Chunk):
            if direction is Direction.TO_CLIENT and self._begins_other_protocol(event):
                framer.abandon(self._opacity.reason)
                self._opacity.note_protocol(event.payload)
                yield from self._record_loss(direction, Loss(0, event.captured_at, event.position))
            results = framer.push(event)
        elif isinstance(event, Gap):
            results = framer.skip(event)
        else:
            results = framer.lose(event)
        for result in results:
            yield from self._process_result(direction, result)

    def abandon_encrypted(
        self, direction: Direction, beginning: bytes, captured_at: int, position: int
    ) -> Iterator[Record]:
        """Skip all further bytes: they are encrypted, and cannot be read. `beginning` has the first bytes."""
        for framer in self._framers.values():
            framer.close()
            framer.abandon(SkipReason.ENCRYPTED)
        self._opacity.note_encrypted(NoRequest(beginning, captured_at, position))
        yield from self._record_loss(direction, Loss(0, captured_at, position))

    @property
    def is_opaque(self) -> bool:
        """Whether all further bytes are skipped."""
        return any(framer.state is FramerState.OPAQUE for framer in self._framers.values())

    @property
    def has_begun(self) -> bool:
        """Whether the client has sent anything."""
        return not self._awaits_first_request

    @property
    def can_be_offloaded(self) -> bool:
        """Whether its state is ordinary, and no raw SASL tokens are expected.

        Ordinary are: both directions SYNCHRONISED, both OPAQUE, and a client that has not sent anything to a
        broker that may not have begun either.
        """
        states = {framer.state for framer in self._framers.values()}
        if self._awaits_first_request:
            return states <= _BEGINNING and not self._opacity.awaits_client and not self.held
        awaits_client = self._opacity.awaits_client and states == {FramerState.SYNCHRONISED}
        waits = self._frame_recorder.expects_tokens or awaits_client
        return len(self._framers) == len(_DIRECTIONS) and states in _ORDINARY and not waits

    def snapshot(self) -> KafkaLayerSnapshot:
        """Return the state of a layer that can be offloaded."""
        frames = {direction: framer.snapshot() for direction, framer in self._framers.items()}
        return KafkaLayerSnapshot(
            self._frame_recorder.in_flight.snapshot(),
            self._frame_recorder.api_versions.response,
            self._awaits_first_request,
            self.is_opaque,
            self._opacity.is_excluded,
            self._opacity.is_encrypted,
            frames,
        )

    def restore(self, snapshot: KafkaLayerSnapshot, *, has_new_frames: bool) -> None:
        """Continue from a snapshot. `has_new_frames` if another tracker recorded frames since."""
        self._frame_recorder.in_flight.restore(snapshot.in_flight)
        self._frame_recorder.api_versions.response = snapshot.api_versions
        if self._awaits_first_request and not snapshot.is_opening:
            self._framers[Direction.TO_BROKER].synchronise()
        for direction, frame in snapshot.frames.items():
            self._framers[direction].restore(frame)
        if has_new_frames:
            self._opacity.is_kafka = True
            self._recorder.forget_gap()

    @property
    def held(self) -> int:
        """Bytes of memory that requests in flight and incomplete frames take, roughly."""
        held = self._frame_recorder.in_flight.held
        for framer in self._framers.values():
            held += framer.held
        return held

    def record_other_protocol(self, *, has_response: bool) -> Iterator[Record]:
        """Yield a NOT_KAFKA if the client began with something else than a request."""
        yield from self._opacity.record_other_protocol(has_response=has_response)

    def close(self) -> None:
        """Count the bytes that both directions still hold: no more bytes will be captured."""
        for framer in self._framers.values():
            framer.close()

    def _first_state(self, direction: Direction, from_start: bool) -> FramerState:
        if self.is_opaque:
            return FramerState.OPAQUE
        if not from_start:
            return FramerState.SEEKING
        return FramerState.OPENING if direction is Direction.TO_BROKER else FramerState.SYNCHRONISED

    @property
    def _awaits_first_request(self) -> bool:
        client = self._framers.get(Direction.TO_BROKER)
        return client is not None and client.state is FramerState.OPENING

    def _begins_other_protocol(self, sent: Chunk) -> bool:
        """Whether bytes of the server show that this is not Kafka: they precede any request, or are TLS."""
        if self._awaits_first_request:
            return True
        return sent.offset == 0 and not self.is_opaque and self._opacity.answers_hello(sent.payload)

    def _process_result(self, direction: Direction, result: Framed) -> Iterator[Record]:
        if isinstance(result, Loss):
            yield from self._record_loss(direction, result)
            return
        if isinstance(result, NoRequest):
            self._opacity.note_no_request(result)
            return
        self._opacity.is_kafka = True
        if isinstance(result, InvalidSize):
            yield self._frame_recorder.invalid_size(direction, result)
        elif direction is Direction.TO_BROKER:
            record = self._frame_recorder.from_client(result)
            yield record
            if record.kind is Kind.REQUEST and self._opacity.awaits_client:
                yield from self._exclude_client(result)
        else:
            yield self._frame_recorder.from_broker(result)

    def _exclude_client(self, request: Frame) -> Iterator[Record]:
        """Skip all further bytes if the first request with a client ID has one that is excluded."""
        if self._opacity.excludes(request):
            for framer in self._framers.values():
                framer.abandon(SkipReason.EXCLUDED)
            yield from self._record_loss(Direction.TO_BROKER, Loss(0, request.captured_at, request.position))

    def _resumes_responses(self, data: bytes | bytearray, missing: int) -> bool | None:
        return self._detector.resumes_responses(data, missing, self._frame_recorder.in_flight.find)

    def _record_loss(self, direction: Direction, loss: Loss) -> Iterator[Record]:
        self._frame_recorder.note_loss(direction)
        if self._framers[direction].state is FramerState.OPAQUE and not self._opacity.is_excluded:
            self._opacity.count_connection()
            for framer in self._framers.values():
                framer.abandon(self._opacity.reason)
        # Losses in a row make one GAP; the ledger counts every byte.
        if not self._recorder.just_recorded_gap(direction):
            yield self._recorder.record(
                Kind.GAP, loss.captured_at, loss.position, direction=direction, true_length=loss.size
            )
