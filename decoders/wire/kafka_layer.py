"""The Kafka layer of one connection: chunks and gaps of both directions → records.

Raw SASL tokens (KIP-43, before SaslHandshake v1): after a SaslHandshake v0 the client's frames are opaque
tokens without a header, until one of them decodes completely as a request. The broker's frames are tokens
while no request is in flight.

A connection is not Kafka, and its bytes are skipped, if the client's first bytes cannot be a request, if the
server sends first, or if it was joined mid-stream and carries TLS records. In the first case the first bytes
are recorded when the connection ends, and whether the server responded: then it speaks that protocol.

If there is a key log, TLS is decrypted before it gets here, and what cannot be decrypted is skipped as
encrypted: `abandon_encrypted`, or TLS records of a connection that was joined mid-stream.

A connection is excluded if the first request that is captured has an excluded client ID. This request is
recorded, and a GAP after it. All further bytes are skipped.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

from decoders.frame.record import Direction, Flag, Kind, Pairing, Record
from decoders.protocol import API_VERSIONS, SASL_HANDSHAKE
from decoders.tls.outcome import Outcome
from decoders.wire.assembly import PREFIX, SHORTEST_FRAME, AssemblySnapshot, Frame, InvalidSize
from decoders.wire.frame_detector import FrameDetector
from decoders.wire.framing import Framed, Framer, FramerState, Loss, NoRequest
from decoders.wire.ledger import Ledger, SkipReason
from decoders.wire.other_protocol import OtherProtocol, is_gssapi_token, protocol_of
from decoders.wire.pairing import RequestInFlight, RequestsInFlight, RequestsInFlightSnapshot, Turn
from decoders.wire.recorder import Recorder
from decoders.wire.stream import SEQUENCE_SPACE, Chunk, Gap, UnsizedGap
from decoders.wire.tls import begins_with_record

SETTLING_TIME = 1_000_000_000
"""Nanoseconds after the capture of a response before a request can count as sent after it."""
_DIRECTIONS = (Direction.TO_BROKER, Direction.TO_CLIENT)
_BEGINNING = {FramerState.OPENING, FramerState.SYNCHRONISED}
_ORDINARY = ({FramerState.SYNCHRONISED}, {FramerState.OPAQUE})
"""The states of both framers while no boundary is sought."""
_REQUEST_HEADER = struct.Struct(">hhi")
_CORRELATION_ID = struct.Struct(">i")


class ApiVersionsResponse(NamedTuple):
    """The latest ApiVersions response: the stream offset after it, and the capture time of its last byte.

    `awaited_alone` means that no other request was in flight, nor sent, while the client waited for it.
    """

    end: int
    completed_at: int
    awaited_alone: bool


class Acknowledged(NamedTuple):
    """The broker's stream up to `offset`; `everything` means that this is all that was captured of it."""

    offset: int
    everything: bool


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


AcknowledgedBy = Callable[[int], Acknowledged]
"""Returns what an acknowledgment number of the client acknowledges."""


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
        self._acknowledged_by = acknowledged_by
        self._framers: dict[Direction, Framer] = {}
        self._in_flight = RequestsInFlight()
        self._raw_tokens = False
        self._is_kafka = False
        self._awaits_client = detector.excludes_clients
        self._is_excluded = False
        self._decrypts = decrypts
        self._is_encrypted = False
        """Whether it is TLS, and is not decrypted any more."""
        self._no_request: NoRequest | None = None
        self._other_protocol = OtherProtocol.TLS
        self._api_versions: ApiVersionsResponse | None = None

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
            is_other_protocol=self._is_tls,
            other_protocol_reason=SkipReason.ENCRYPTED if self._decrypts else SkipReason.OPAQUE,
            max_frame=self._detector.max_frame,
        )
        if self._is_excluded or self._is_encrypted:
            self._framers[direction].abandon(self._opaque_reason)
        if not from_start:
            self._note_loss(direction)

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
                framer.abandon(self._opaque_reason)
                self._other_protocol = protocol_of(event.payload[:PREFIX])
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
        self._is_encrypted = True
        for framer in self._framers.values():
            framer.close()
            framer.abandon(SkipReason.ENCRYPTED)
        if not self._is_kafka:
            self._no_request = NoRequest(beginning, captured_at, position)
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
            return states <= _BEGINNING and not self._awaits_client and not self.held
        waits = self._raw_tokens or (self._awaits_client and states == {FramerState.SYNCHRONISED})
        return len(self._framers) == len(_DIRECTIONS) and states in _ORDINARY and not waits

    def snapshot(self) -> KafkaLayerSnapshot:
        """Return the state of a layer that can be offloaded."""
        frames = {direction: framer.snapshot() for direction, framer in self._framers.items()}
        states = self._awaits_first_request, self.is_opaque, self._is_excluded, self._is_encrypted
        return KafkaLayerSnapshot(self._in_flight.snapshot(), self._api_versions, *states, frames)

    def restore(self, snapshot: KafkaLayerSnapshot, *, has_new_frames: bool) -> None:
        """Continue from a snapshot. `has_new_frames` if another tracker recorded frames since."""
        self._in_flight.restore(snapshot.in_flight)
        self._api_versions = snapshot.api_versions
        if self._awaits_first_request and not snapshot.is_opening:
            self._framers[Direction.TO_BROKER].synchronise()
        for direction, frame in snapshot.frames.items():
            self._framers[direction].restore(frame)
        if has_new_frames:
            self._is_kafka = True
            self._recorder.forget_gap()

    @property
    def held(self) -> int:
        """Bytes of memory that requests in flight and incomplete frames take, roughly."""
        held = self._in_flight.held
        for framer in self._framers.values():
            held += framer.held
        return held

    def record_other_protocol(self, *, has_response: bool) -> Iterator[Record]:
        """Yield a NOT_KAFKA if the client began with something else than a request.

        If there is a key log, a ClientHello counts as answered: other connections to a port that speaks TLS
        become Kafka, and one that an overloaded or ending broker leaves alone must not stand out from them.
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

    def _is_tls(self, data: bytes | bytearray) -> bool | None:
        """Whether the bytes of a connection that was joined mid-stream are TLS records."""
        verdict = not self._is_kafka and begins_with_record(data)
        if verdict:
            self._note_unread_handshake()
        return verdict

    def _note_unread_handshake(self) -> None:
        """Count a TLS connection that a key log cannot open: its handshake was not captured whole."""
        if self._decrypts:
            self._is_encrypted = True
            self._ledger.count_tls(Outcome.NO_HANDSHAKE)

    @property
    def _opaque_reason(self) -> SkipReason:
        """Why the bytes of an opaque connection are skipped."""
        if self._is_excluded:
            return SkipReason.EXCLUDED
        return SkipReason.ENCRYPTED if self._is_encrypted else SkipReason.OPAQUE

    @property
    def _awaits_first_request(self) -> bool:
        client = self._framers.get(Direction.TO_BROKER)
        return client is not None and client.state is FramerState.OPENING

    def _begins_other_protocol(self, sent: Chunk) -> bool:
        """Whether bytes of the server show that this is not Kafka.

        They precede any request, or they are its first ones and TLS: it answers a ClientHello that was not
        captured, or not whole.
        """
        if self._awaits_first_request:
            return True
        is_first = sent.offset == 0 and not self._is_kafka and not self.is_opaque
        is_tls = is_first and protocol_of(sent.payload[:PREFIX]) is OtherProtocol.TLS
        if is_tls:
            self._note_unread_handshake()
        return is_tls

    def _process_result(self, direction: Direction, result: Framed) -> Iterator[Record]:
        if isinstance(result, Loss):
            yield from self._record_loss(direction, result)
            return
        if isinstance(result, NoRequest):
            self._other_protocol = protocol_of(result.beginning[:PREFIX])
            self._no_request = None if is_gssapi_token(result.beginning) else result
            return
        self._is_kafka = True
        if isinstance(result, InvalidSize):
            yield self._invalid_size(direction, result)
        elif direction is Direction.TO_BROKER:
            record = self._process_request(result)
            yield record
            if record.kind is Kind.REQUEST and self._awaits_client:
                yield from self._exclude_client(result)
        else:
            yield self._process_response(result)

    def _exclude_client(self, request: Frame) -> Iterator[Record]:
        """Skip all further bytes if the first request with a client ID has one that is excluded."""
        verdict = self._detector.is_excluded(request.payload)
        self._awaits_client, self._is_excluded = verdict is None, verdict is True
        if self._is_excluded:
            for framer in self._framers.values():
                framer.abandon(SkipReason.EXCLUDED)
            yield from self._record_loss(Direction.TO_BROKER, Loss(0, request.captured_at, request.position))

    def _resumes_responses(self, data: bytes | bytearray, missing: int) -> bool | None:
        return self._detector.resumes_responses(data, missing, self._in_flight.find)

    def _record_loss(self, direction: Direction, loss: Loss) -> Iterator[Record]:
        self._note_loss(direction)
        if self._framers[direction].state is FramerState.OPAQUE and not self._is_excluded:
            self._ledger.count_opaque(self._other_protocol)
            for framer in self._framers.values():
                framer.abandon(self._opaque_reason)
        # Losses in a row make one GAP; the ledger counts every byte.
        if not self._recorder.just_recorded_gap(direction):
            yield self._recorder.record(
                Kind.GAP, loss.captured_at, loss.position, direction=direction, true_length=loss.size
            )

    def _note_loss(self, direction: Direction) -> None:
        # Losses in a row are one gap, and the first of them has decided what it may hide.
        if not self._recorder.just_recorded_gap(direction) and self._may_hide_api_versions(direction):
            self._api_versions = None
        self._in_flight.note_loss()

    def _may_hide_api_versions(self, direction: Direction) -> bool:
        """Whether an ApiVersions response may be lost. Its request is in flight, or was lost, too.

        The holes of two directions may be found in any order.
        """
        if not self._in_flight.is_in_order:
            return True
        return direction is Direction.TO_CLIENT and self._in_flight.includes(API_VERSIONS)

    def _invalid_size(self, direction: Direction, invalid: InvalidSize) -> Record:
        self._in_flight.note_loss()
        return self._recorder.record(
            Kind.INVALID_SIZE,
            invalid.captured_at,
            invalid.position,
            direction=direction,
            true_length=invalid.size % SEQUENCE_SPACE,
        )

    def _process_request(self, frame: Frame) -> Record:
        if self._raw_tokens and not self._detector.is_request(frame.payload):
            return self._sasl_token(Direction.TO_BROKER, frame)
        self._raw_tokens = False
        if frame.true_length < SHORTEST_FRAME:
            return self._invalid_size(Direction.TO_BROKER, frame.invalid_size())
        record = self._record(Kind.REQUEST, Direction.TO_BROKER, frame, flags=self._request_flags(frame))
        self._in_flight.note_request()
        if len(frame.payload) < _REQUEST_HEADER.size:
            self._in_flight.note_loss()
            return record
        api_key, api_version, correlation_id = _REQUEST_HEADER.unpack_from(frame.payload)
        self._raw_tokens = (api_key, api_version) == (SASL_HANDSHAKE, 0)
        expects_response = self._detector.expects_response(frame.payload)
        if expects_response is not False:
            request = RequestInFlight(
                record.sequence, correlation_id, api_key, api_version, frame.captured_at
            )
            self._in_flight.add(request, certain=expects_response is True)
        return record

    def _request_flags(self, frame: Frame) -> Flag:
        """Return what is known of whether the client had the latest ApiVersions response."""
        response = self._api_versions
        if response is None:
            return Flag.NONE
        acknowledged = self._acknowledged_by(frame.acknowledgment)
        if acknowledged.offset < response.end:
            # Sent before the response arrived, even if it was captured later: this client pipelines.
            self._api_versions = response._replace(awaited_alone=False)
            return Flag.NONE
        if frame.captured_at >= response.completed_at + SETTLING_TIME:
            return Flag.SETTLED
        is_in_turn = acknowledged.everything and self._in_flight.turn is Turn.CLIENT
        return Flag.INFORMED if is_in_turn and response.awaited_alone else Flag.NONE

    def _process_response(self, frame: Frame) -> Record:
        if self._raw_tokens and self._in_flight.is_empty:
            return self._sasl_token(Direction.TO_CLIENT, frame)
        if frame.true_length < SHORTEST_FRAME:
            return self._invalid_size(Direction.TO_CLIENT, frame.invalid_size())
        awaited_alone = self._in_flight.turn is Turn.BROKER
        pairing, request = self._pair(frame)
        if request is None:
            return self._unpaired(frame, pairing)
        if pairing is Pairing.MATCHED and request.api_key == API_VERSIONS:
            self._api_versions = ApiVersionsResponse(frame.end, frame.completed_at, awaited_alone)
        return self._record(
            Kind.RESPONSE,
            Direction.TO_CLIENT,
            frame,
            pairing=pairing,
            paired_sequence=request.sequence,
            paired_api_key=request.api_key,
            paired_api_version=request.api_version,
        )

    def _unpaired(self, frame: Frame, pairing: Pairing) -> Record:
        """Record a response without a request. If one was missed it may have been ApiVersions."""
        fields: dict[str, object] = {"pairing": pairing}
        if pairing is Pairing.UNKNOWN and self._detector.is_api_versions(frame.payload, frame.true_length):
            self._api_versions = None
            fields["paired_api_key"] = API_VERSIONS
        return self._record(Kind.RESPONSE, Direction.TO_CLIENT, frame, **fields)

    def _pair(self, frame: Frame) -> tuple[Pairing, RequestInFlight | None]:
        if len(frame.payload) < _CORRELATION_ID.size:
            self._in_flight.note_loss()
            return Pairing.UNKNOWN, None
        return self._in_flight.pair(_CORRELATION_ID.unpack_from(frame.payload)[0])

    def _sasl_token(self, direction: Direction, frame: Frame) -> Record:
        if direction is Direction.TO_BROKER:
            self._in_flight.note_request()
        else:
            self._in_flight.note_token_response()
        blanked = frame._replace(payload=bytes(len(frame.payload)))
        return self._record(Kind.SASL_TOKEN, direction, blanked)

    def _record(self, kind: Kind, direction: Direction, frame: Frame, **fields: object) -> Record:
        return self._recorder.record(
            kind,
            frame.captured_at,
            frame.position,
            direction=direction,
            true_length=frame.true_length,
            frame=frame.payload,
            **fields,
        )
