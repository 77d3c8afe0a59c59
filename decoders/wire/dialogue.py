"""What client and broker say on one connection: chunks and gaps of both directions → records.

Raw SASL tokens (KIP-43, before SaslHandshake v1): after a SaslHandshake v0 the client's frames are
opaque tokens without a header, until one of them decodes completely as a request. Frames of the
broker are tokens while no request waits for an answer.

A connection is not Kafka, and is left alone, where the client's first bytes cannot be a request, where
the server speaks first, or where it was joined midway and carries TLS records.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

from decoders.frame.record import Direction, Flag, Kind, Pairing, Record
from decoders.wire.assembly import SHORTEST_FRAME, AssemblyState, Frame, InvalidSize
from decoders.wire.evidence import Evidence
from decoders.wire.framing import Framed, Framer, Loss, Step
from decoders.wire.ledger import Ledger
from decoders.wire.pairing import AnswersOwed, Owed, OwedState
from decoders.wire.recorder import Recorder
from decoders.wire.stream import SEQUENCE_SPACE, Chunk, Gap
from decoders.wire.tls import begins_with_record

SETTLING_TIME = 1_000_000_000
"""Nanoseconds after an answer was captured before a request can count as sent after it."""
_SASL_HANDSHAKE, _API_VERSIONS = 17, 18
_DIRECTIONS = (Direction.TO_BROKER, Direction.TO_CLIENT)
_CALM = ({Step.IN_STEP}, {Step.OPAQUE})
"""The steps of both directions while nothing is sought."""
_REQUEST_HEADER = struct.Struct(">hhi")
_CORRELATION_ID = struct.Struct(">i")


class Advertised(NamedTuple):
    """The latest answer to ApiVersions: the offset of its end, and when that was captured."""

    end: int
    completed_at: int


class DialogueState(NamedTuple):
    """All that a calm dialogue holds; `frames` are those that come together."""

    owed: OwedState
    advertised: Advertised | None
    is_opaque: bool
    frames: dict[Direction, AssemblyState | None]


PlaceAnswer = Callable[[int], int]
"""Places an acknowledgment number of the client in the broker's stream."""


class Dialogue:
    """The Kafka side of one connection. `begin` must be called for a direction before `take`."""

    def __init__(self, evidence: Evidence, ledger: Ledger, recorder: Recorder, place: PlaceAnswer) -> None:
        self._evidence = evidence
        self._ledger = ledger
        self._recorder = recorder
        self._place = place
        self._framers: dict[Direction, Framer] = {}
        self._owed = AnswersOwed()
        self._raw_tokens = False
        self._is_kafka = False
        self._advertised: Advertised | None = None

    def begin(self, direction: Direction, *, from_start: bool) -> None:
        """Set a direction up; `from_start` is False where its first bytes may have been missed."""
        resumes = self._resumes_answers
        if direction is Direction.TO_BROKER:
            resumes = self._evidence.resumes_requests
        step = self._first_step(direction, from_start)
        self._framers[direction] = Framer(
            self._ledger,
            step,
            opens=self._evidence.opens,
            resumes=resumes,
            is_foreign=self._is_encrypted,
            max_frame=self._evidence.max_frame,
        )
        if not from_start:
            self._note_loss(direction)

    def miss_beginning(self, direction: Direction, captured_at: int, position: int) -> Iterator[Record]:
        """Tell that a direction may have begun before its first segment seen."""
        if self._framers[direction].step is not Step.OPAQUE:
            yield from self._lose(direction, Loss(0, captured_at, position))

    def take(self, direction: Direction, event: Chunk | Gap) -> Iterator[Record]:
        """Take what comes next in a direction."""
        framer = self._framers[direction]
        if isinstance(event, Chunk):
            if direction is Direction.TO_CLIENT and self._awaits_first_request:
                framer.abandon()
                yield from self._lose(direction, Loss(0, event.captured_at, event.position))
            results = framer.push(event)
        else:
            results = framer.lose(event)
        for result in results:
            yield from self._hear(direction, result)

    @property
    def is_calm(self) -> bool:
        """Whether both directions are in step, or both opaque, and no SASL tokens are on their way."""
        steps = {framer.step for framer in self._framers.values()}
        return len(self._framers) == len(_DIRECTIONS) and steps in _CALM and not self._raw_tokens

    def snapshot(self) -> DialogueState:
        """Give all that a calm dialogue holds."""
        frames = {direction: framer.snapshot() for direction, framer in self._framers.items()}
        is_opaque = any(framer.step is Step.OPAQUE for framer in self._framers.values())
        return DialogueState(self._owed.snapshot(), self._advertised, is_opaque, frames)

    def restore(self, state: DialogueState, *, told: bool) -> None:
        """Go on from a snapshot of the same dialogue; `told` says that others told frames of it."""
        self._owed.restore(state.owed)
        self._advertised = state.advertised
        for direction, frame in state.frames.items():
            self._framers[direction].restore(frame)
        if told:
            self._is_kafka = True
            self._recorder.pass_over()

    @property
    def held(self) -> int:
        """How much memory waits in this conversation, in bytes, roughly."""
        return self._owed.held + sum(framer.held for framer in self._framers.values())

    def close(self) -> None:
        """Book what is left in both directions: nothing more will come."""
        for framer in self._framers.values():
            framer.close()

    def _first_step(self, direction: Direction, from_start: bool) -> Step:
        if any(framer.step is Step.OPAQUE for framer in self._framers.values()):
            return Step.OPAQUE
        if not from_start:
            return Step.SEEKING
        return Step.OPENING if direction is Direction.TO_BROKER else Step.IN_STEP

    def _is_encrypted(self, data: bytes | bytearray) -> bool | None:
        return not self._is_kafka and begins_with_record(data)

    @property
    def _awaits_first_request(self) -> bool:
        client = self._framers.get(Direction.TO_BROKER)
        return client is not None and client.step is Step.OPENING

    def _hear(self, direction: Direction, result: Framed) -> Iterator[Record]:
        if isinstance(result, Loss):
            yield from self._lose(direction, result)
            return
        self._is_kafka = True
        if isinstance(result, InvalidSize):
            yield self._refuse(direction, result)
        elif direction is Direction.TO_BROKER:
            yield self._hear_client(result)
        else:
            yield self._hear_broker(result)

    def _resumes_answers(self, data: bytes | bytearray, missing: int) -> bool | None:
        return self._evidence.resumes_answers(data, missing, self._owed.find)

    def _lose(self, direction: Direction, loss: Loss) -> Iterator[Record]:
        self._note_loss(direction)
        if self._framers[direction].step is Step.OPAQUE:
            self._ledger.leave_alone()
            for framer in self._framers.values():
                framer.abandon()
        # One record says that something is missing here; the ledger counts every byte.
        if not self._recorder.just_told_gap(direction):
            yield self._recorder.record(
                Kind.GAP, loss.captured_at, loss.position, direction=direction, true_length=loss.size
            )

    def _note_loss(self, direction: Direction) -> None:
        self._owed.lose()
        if direction is Direction.TO_CLIENT:
            self._advertised = None

    def _refuse(self, direction: Direction, invalid: InvalidSize) -> Record:
        self._owed.lose()
        return self._recorder.record(
            Kind.INVALID_SIZE,
            invalid.captured_at,
            invalid.position,
            direction=direction,
            true_length=invalid.size % SEQUENCE_SPACE,
        )

    def _hear_client(self, frame: Frame) -> Record:
        if self._raw_tokens and not self._evidence.is_request(frame.payload):
            return self._token(Direction.TO_BROKER, frame)
        self._raw_tokens = False
        if frame.true_length < SHORTEST_FRAME:
            return self._refuse(Direction.TO_BROKER, frame.invalid_size())
        flags = Flag.SETTLED if self._is_settled(frame) else Flag.NONE
        record = self._record(Kind.REQUEST, Direction.TO_BROKER, frame, flags=flags)
        if len(frame.payload) < _REQUEST_HEADER.size:
            self._owed.lose()
            return record
        api_key, api_version, correlation_id = _REQUEST_HEADER.unpack_from(frame.payload)
        self._raw_tokens = (api_key, api_version) == (_SASL_HANDSHAKE, 0)
        owes = self._evidence.owes_answer(frame.payload)
        if owes is not False:
            owed = Owed(record.sequence, correlation_id, api_key, api_version, frame.captured_at)
            self._owed.ask(owed, certain=owes is True)
        return record

    def _is_settled(self, frame: Frame) -> bool:
        """Whether the sender surely had the latest ApiVersions answer when it sent a request."""
        answer = self._advertised
        return (
            answer is not None
            and self._place(frame.acknowledgment) >= answer.end
            and frame.captured_at >= answer.completed_at + SETTLING_TIME
        )

    def _hear_broker(self, frame: Frame) -> Record:
        if self._raw_tokens and self._owed.none_waits:
            return self._token(Direction.TO_CLIENT, frame)
        if frame.true_length < SHORTEST_FRAME:
            return self._refuse(Direction.TO_CLIENT, frame.invalid_size())
        pairing, owed = self._pair(frame)
        if owed is None:
            return self._record(Kind.RESPONSE, Direction.TO_CLIENT, frame, pairing=pairing)
        if pairing is Pairing.MATCHED and owed.api_key == _API_VERSIONS:
            self._advertised = Advertised(frame.end, frame.completed_at)
        return self._record(
            Kind.RESPONSE,
            Direction.TO_CLIENT,
            frame,
            pairing=pairing,
            paired_sequence=owed.sequence,
            paired_api_key=owed.api_key,
            paired_api_version=owed.api_version,
        )

    def _pair(self, frame: Frame) -> tuple[Pairing, Owed | None]:
        if len(frame.payload) < _CORRELATION_ID.size:
            self._owed.lose()
            return Pairing.UNKNOWN, None
        return self._owed.answer(_CORRELATION_ID.unpack_from(frame.payload)[0])

    def _token(self, direction: Direction, frame: Frame) -> Record:
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
