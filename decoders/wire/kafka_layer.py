"""The Kafka layer of one connection: chunks and gaps of both directions → records.

A framer cuts each direction into frames, and the frame recorder makes their records. Where bytes were lost a
GAP is recorded. The connection as a whole is in one of these states:

    state     meaning                                       next state
    --------  --------------------------------------------  --------------------------------------------------
    OPENING   the client has not sent anything              KAFKA at a plausible request; OPAQUE at anything
                                                            else, or if the server sends first
    SEEKING   it was joined mid-stream, or bytes of a       KAFKA when both directions have a frame boundary;
              direction were lost                           OPAQUE at TLS records, if no frame was captured
                                                            before
    KAFKA     both directions are cut into frames           SEEKING at a loss; OPAQUE if the client is
                                                            excluded
    OPAQUE    all further bytes are skipped                 none

`Opacity` keeps the reason why a connection is opaque:

- Another protocol. If the client's first bytes cannot be a request, they are recorded when the connection
  ends, with whether the server responded: then it speaks that protocol.
- Encrypted. With a key log, TLS is decrypted below this layer, and what cannot be decrypted is skipped: all
  that follows unreadable bytes, and the TLS records of a connection that was joined mid-stream.
- Excluded. The first captured request has an excluded client ID. It is recorded, and a GAP after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from decoders.frame.record import Direction, Flag, Kind, Record
from decoders.tls.outcome import TlsOutcome
from decoders.tls.records import begins_with_record
from decoders.wire.chunk import Chunk, Gap, StreamEvent
from decoders.wire.frame_detector import FrameDetector, OtherProtocol, is_gssapi_token, protocol_of
from decoders.wire.framing import (
    PREFIX,
    AssemblySnapshot,
    DetectCut,
    Frame,
    Framed,
    Framer,
    FramerState,
    InvalidSize,
    Loss,
    NoRequest,
)
from decoders.wire.ledger import Ledger, SkipReason
from decoders.wire.pairing import AcknowledgedBy, ApiVersionsResponse, RequestsInFlightSnapshot
from decoders.wire.recorder import FrameRecorder, Recorder

_DIRECTIONS = (Direction.TO_BROKER, Direction.TO_CLIENT)
_BEGINNING = {FramerState.OPENING, FramerState.SYNCHRONISED}
_ORDINARY = ({FramerState.SYNCHRONISED}, {FramerState.OPAQUE})
"""The states of both framers while no boundary is sought."""


class KafkaLayerSnapshot(NamedTuple):
    """The state of a Kafka layer that can be offloaded.

    `is_opening` means that the client has not sent anything. `frames` are those under assembly.
    """

    in_flight: RequestsInFlightSnapshot
    api_versions: ApiVersionsResponse | None
    is_opening: bool
    is_opaque: bool
    is_excluded: bool
    is_encrypted: bool
    frames: dict[Direction, AssemblySnapshot | None]


class KafkaLayer:
    """Follows both directions of one connection. `begin` must be called for a direction before `process`."""

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
        self._principal_reader = detector.principal_reader()

    def begin(self, direction: Direction, *, from_start: bool) -> None:
        """Set up a direction; `from_start` is false if its first bytes may have been missed."""
        resumes: DetectCut = self._detector.resumes_requests
        if direction is Direction.TO_CLIENT:
            find_request = self._frame_recorder.in_flight.find
            resumes = partial(self._detector.resumes_responses, find_request=find_request)
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
        if not self._framers[direction].is_opaque:
            yield from self._record_loss(direction, Loss(0, captured_at, position))

    def process(self, direction: Direction, event: StreamEvent) -> Iterator[Record]:
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
        """Skip all further bytes, which cannot be decrypted. `beginning` has the client's first bytes."""
        for framer in self._framers.values():
            framer.close()
            framer.abandon(SkipReason.ENCRYPTED)
        self._opacity.note_encrypted(NoRequest(beginning, captured_at, position))
        yield from self._record_loss(direction, Loss(0, captured_at, position))

    def record_principal(self, name: str, captured_at: int, position: int) -> Iterator[Record]:
        """Yield the name under which the client logs in, nothing if it is empty."""
        if name:
            yield self._recorder.record(
                Kind.PRINCIPAL, captured_at, position, direction=Direction.TO_BROKER, frame=name.encode()
            )

    @property
    def is_opaque(self) -> bool:
        """Whether all further bytes are skipped."""
        return any(framer.is_opaque for framer in self._framers.values())

    @property
    def has_begun(self) -> bool:
        """Whether the client has sent anything."""
        return not self._awaits_first_request

    @property
    def can_be_offloaded(self) -> bool:
        """Whether a flow can hold its state: KAFKA, OPAQUE in both directions, or OPENING.

        Raw SASL tokens, a name that is awaited and a client that is not identified are left to the scalar
        code.
        """
        states = {framer.state for framer in self._framers.values()}
        if self._awaits_first_request:
            return states <= _BEGINNING and not self._opacity.awaits_client and not self.held
        awaits_client = self._opacity.awaits_client and states == {FramerState.SYNCHRONISED}
        can_be_offloaded = self._frame_recorder.in_flight.can_be_offloaded
        awaits_name = self._principal_reader is not None and self._principal_reader.awaits_token
        waits = self._frame_recorder.expects_tokens or awaits_name or awaits_client
        is_ordinary = len(self._framers) == len(_DIRECTIONS) and states in _ORDINARY
        return is_ordinary and can_be_offloaded and not waits

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
        """Continue from a snapshot. `has_new_frames` is true if another tracker has recorded frames since."""
        self._frame_recorder.in_flight.restore(snapshot.in_flight)
        self._frame_recorder.api_versions.response = snapshot.api_versions
        if self._awaits_first_request and not snapshot.is_opening:
            # The other tracker has accepted the first request.
            self._framers[Direction.TO_BROKER].state = FramerState.SYNCHRONISED
        for direction, frame in snapshot.frames.items():
            self._framers[direction].restore(frame)
        if has_new_frames:
            self._opacity.is_kafka = True
            self._recorder.forget_gap()

    @property
    def held(self) -> int:
        """Bytes of memory of requests in flight and incomplete frames, roughly."""
        return self._frame_recorder.in_flight.held + self.assembled

    @property
    def assembled(self) -> int:
        """The bytes of incomplete frames."""
        return sum(framer.held for framer in self._framers.values())

    def record_other_protocol(self, *, has_response: bool) -> Iterator[Record]:
        """Yield a NOT_KAFKA if the client's first bytes are no request."""
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
        """Whether the server's bytes show another protocol: they precede any request, or are TLS."""
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
            if (reader := self._principal_reader) is not None:
                name = reader.name_in(result, is_token=record.kind is Kind.SASL_TOKEN)
                yield from self.record_principal(name, result.captured_at, result.position)
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

    def _record_loss(self, direction: Direction, loss: Loss) -> Iterator[Record]:
        self._frame_recorder.note_loss(direction)
        if self._framers[direction].is_opaque and not self._opacity.is_excluded:
            self._opacity.count_connection()
            for framer in self._framers.values():
                framer.abandon(self._opacity.reason)
        # Consecutive losses make one GAP; the ledger counts every byte.
        if not self._recorder.just_recorded_gap(direction):
            yield self._recorder.record(
                Kind.GAP, loss.captured_at, loss.position, direction=direction, true_length=loss.size
            )


class Opacity:
    """Decides whether one connection is opaque, and why. `decrypts` is true if there is a key log.

    The caller sets `is_kafka` when a frame is captured; bytes behind it never count as another protocol.
    `awaits_client` is true until a request shows whether the client is excluded. `is_encrypted` means that
    the connection is TLS that is not decrypted.
    """

    def __init__(
        self, detector: FrameDetector, ledger: Ledger, recorder: Recorder, *, decrypts: bool
    ) -> None:
        self.is_kafka = False
        self.awaits_client = detector.excludes_clients
        self.is_excluded = False
        self.is_encrypted = False
        self._detector = detector
        self._ledger = ledger
        self._recorder = recorder
        self._decrypts = decrypts
        self._other_protocol = OtherProtocol.TLS
        self._no_request: NoRequest | None = None

    @property
    def reason(self) -> SkipReason:
        """Why the bytes of an opaque connection are skipped."""
        if self.is_excluded:
            return SkipReason.EXCLUDED
        return SkipReason.ENCRYPTED if self.is_encrypted else SkipReason.OPAQUE

    @property
    def reason_if_tls(self) -> SkipReason:
        """Why TLS records are skipped."""
        return SkipReason.ENCRYPTED if self._decrypts else SkipReason.OPAQUE

    def is_tls(self, data: bytes | bytearray) -> bool | None:
        """Whether bytes after a gap are TLS records. None if more bytes are needed."""
        is_tls = not self.is_kafka and begins_with_record(data)
        if is_tls:
            self._note_unread_handshake()
        return is_tls

    def answers_hello(self, beginning: bytes) -> bool:
        """Whether the server's first bytes answer a ClientHello that was not captured, or not whole."""
        is_tls = not self.is_kafka and protocol_of(beginning[:PREFIX]) is OtherProtocol.TLS
        if is_tls:
            self._note_unread_handshake()
        return is_tls

    def note_protocol(self, beginning: bytes) -> None:
        """Note the protocol that these first bytes belong to."""
        self._other_protocol = protocol_of(beginning[:PREFIX])

    def note_no_request(self, no_request: NoRequest) -> None:
        """Note the client's first bytes, which are no request."""
        self.note_protocol(no_request.beginning)
        self._no_request = None if is_gssapi_token(no_request.beginning) else no_request

    def note_encrypted(self, first: NoRequest) -> None:
        """Note that the connection is TLS that cannot be decrypted; `first` has its first bytes."""
        self.is_encrypted = True
        if not self.is_kafka:
            self._no_request = first

    def excludes(self, request: Frame) -> bool:
        """Whether a request has a client ID that is excluded; the first one with a client ID decides."""
        is_excluded = self._detector.is_excluded(request.payload)
        self.awaits_client, self.is_excluded = is_excluded is None, is_excluded is True
        return self.is_excluded

    def count_connection(self) -> None:
        """Count the connection under the protocol that it carries instead of Kafka."""
        self._ledger.count_opaque(self._other_protocol)

    def record_other_protocol(self, *, has_response: bool) -> Iterator[Record]:
        """Yield a NOT_KAFKA if the client's first bytes are no request.

        With a key log a ClientHello counts as answered. Other connections to the same port become Kafka, so
        one that an overloaded or ending broker leaves unanswered must not be reported as another protocol.
        """
        if self._no_request is not None:
            beginning, captured_at, position = self._no_request
            is_tls = protocol_of(beginning[:PREFIX]) is OtherProtocol.TLS
            has_response = has_response or (self._decrypts and is_tls)
            flags = Flag.NAMED_PORT if self._recorder.is_port_named else Flag.NONE
            yield self._recorder.record(
                Kind.NOT_KAFKA,
                captured_at,
                position,
                direction=Direction.TO_BROKER,
                true_length=PREFIX,
                frame=beginning[:PREFIX],
                flags=flags | Flag.RESPONDED if has_response else flags,
            )

    def _note_unread_handshake(self) -> None:
        """Count a TLS connection that cannot be decrypted, because its handshake was not captured whole."""
        if self._decrypts:
            self.is_encrypted = True
            self._ledger.count_tls(TlsOutcome.NO_HANDSHAKE)
