"""What client and broker say on one connection: chunks and gaps of both directions → records.

Raw SASL tokens (KIP-43, before SaslHandshake v1): after a SaslHandshake v0 the client's frames are
opaque tokens without a header, until one of them decodes completely as a request. Frames of the
broker are tokens while no request waits for an answer.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from decoders.frame.record import Direction, Flag, Kind, Pairing, Record
from decoders.wire.assembly import Frame
from decoders.wire.evidence import Evidence
from decoders.wire.framing import Framer, Loss, Step
from decoders.wire.ledger import Ledger
from decoders.wire.pairing import AnswersOwed, Owed
from decoders.wire.recorder import Recorder
from decoders.wire.stream import Chunk, Gap

SETTLING_TIME = 1_000_000_000
"""Nanoseconds after an answer was captured before a request can count as sent after it."""
_SASL_HANDSHAKE, _API_VERSIONS = 17, 18
_REQUEST_HEADER = struct.Struct(">hhi")
_CORRELATION_ID = struct.Struct(">i")

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
        self._advertised: Frame | None = None

    def begin(self, direction: Direction, *, from_start: bool) -> None:
        """Set a direction up; `from_start` is False where its first bytes may have been missed."""
        resumes = self._resumes_answers
        if direction is Direction.TO_BROKER:
            resumes = self._evidence.resumes_requests
        step = self._first_step(direction, from_start)
        self._framers[direction] = Framer(self._ledger, step, opens=self._evidence.opens, resumes=resumes)
        if not from_start:
            self._note_loss(direction)

    def miss_beginning(self, direction: Direction, captured_at: int, position: int) -> Iterator[Record]:
        """Tell that a direction may have begun before its first segment seen."""
        yield from self._lose(direction, Loss(0, captured_at, position))

    def take(self, direction: Direction, event: Chunk | Gap) -> Iterator[Record]:
        """Take what comes next in a direction."""
        framer = self._framers[direction]
        for result in framer.push(event) if isinstance(event, Chunk) else framer.lose(event):
            if isinstance(result, Loss):
                yield from self._lose(direction, result)
            elif direction is Direction.TO_BROKER:
                yield self._hear_client(result)
            else:
                yield self._hear_broker(result)

    def close(self) -> None:
        """Book what is left in both directions: nothing more will come."""
        for framer in self._framers.values():
            framer.close()

    def _first_step(self, direction: Direction, from_start: bool) -> Step:
        client = self._framers.get(Direction.TO_BROKER)
        if client is not None and client.step is Step.OPAQUE:
            return Step.OPAQUE
        if not from_start:
            return Step.SEEKING
        return Step.OPENING if direction is Direction.TO_BROKER else Step.IN_STEP

    def _resumes_answers(self, data: bytes | bytearray) -> bool | None:
        return self._evidence.resumes_answers(data, self._owed.find)

    def _lose(self, direction: Direction, loss: Loss) -> Iterator[Record]:
        self._note_loss(direction)
        if direction is Direction.TO_BROKER and self._framers[direction].step is Step.OPAQUE:
            self._ledger.opaque_connections += 1
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

    def _hear_client(self, frame: Frame) -> Record:
        if self._raw_tokens and not self._evidence.is_request(frame.payload):
            return self._token(Direction.TO_BROKER, frame)
        self._raw_tokens = False
        flags = Flag.SETTLED if self._is_settled(frame) else Flag.NONE
        record = self._record(Kind.REQUEST, Direction.TO_BROKER, frame, flags=flags)
        if len(frame.payload) < _REQUEST_HEADER.size:
            self._owed.lose()
            return record
        api_key, api_version, correlation_id = _REQUEST_HEADER.unpack_from(frame.payload)
        self._raw_tokens = (api_key, api_version) == (_SASL_HANDSHAKE, 0)
        owes = self._evidence.owes_answer(frame.payload)
        if owes is not False:
            owed = Owed(record.sequence, correlation_id, api_key, api_version)
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
        pairing, owed = self._pair(frame)
        if owed is None:
            return self._record(Kind.RESPONSE, Direction.TO_CLIENT, frame, pairing=pairing)
        if pairing is Pairing.MATCHED and owed.api_key == _API_VERSIONS:
            self._advertised = frame
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
