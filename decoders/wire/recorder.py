"""Makes the records of one connection: its opening, its frames, and all other events.

All records of a connection share an identity, which the first one, OPENED, determines. A `Recorder` numbers
the records and fills in the identity. A `FrameRecorder` makes records of frames: requests, responses with
their requests, raw SASL tokens.

Raw SASL tokens (KIP-43, before SaslHandshake v1): after a SaslHandshake v0 the client's frames are opaque
tokens without a header, until one of them decodes completely as a request. The broker's frames are tokens
while no request is in flight.
"""

from __future__ import annotations

import dataclasses
import hashlib
import struct
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from decoders.frame.record import NO_RECORD, Direction, Flag, Kind, Pairing, Record
from decoders.protocol import API_VERSIONS, SASL_HANDSHAKE
from decoders.wire.frame_detector import FrameDetector
from decoders.wire.framing import SHORTEST_FRAME, Frame, InvalidSize
from decoders.wire.pairing import (
    AcknowledgedBy,
    ApiVersionsResponse,
    LatestApiVersions,
    RequestInFlight,
    RequestsInFlight,
    Turn,
)
from decoders.wire.segment import SocketAddress
from decoders.wire.stream import SEQUENCE_SPACE

ShownClient: TypeAlias = Callable[[SocketAddress], SocketAddress]
"""Returns the address that records show of a client: another one if clients have pseudonyms."""
_REQUEST_HEADER = struct.Struct(">hhi")
_CORRELATION_ID = struct.Struct(">i")


def as_it_is(client: SocketAddress) -> SocketAddress:
    """Show a client's own address."""
    return client


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """One run of the feeder: the fields that all its records share, and their numbers.

    `next_sequence` returns the numbers, from 1. `names_ports` is True if the user names the ports of the
    brokers, so that no others are watched. Records show the address of a client as `shown_client` returns it.
    """

    run: int
    cluster: str
    feeder: str
    next_sequence: Callable[[], int]
    names_ports: bool = False
    shown_client: ShownClient = as_it_is


class Recorder:
    """Makes the records of one connection, of any kind."""

    def __init__(self, run: Run, client: SocketAddress, server: SocketAddress) -> None:
        self.is_port_named = run.names_ports
        self._next_sequence = run.next_sequence
        self._latest = Record(
            kind=Kind.OPENED,
            connection=b"",
            run=run.run,
            sequence=NO_RECORD,
            captured_at=0,
            client=run.shown_client(client).endpoint,
            server=server.endpoint,
            cluster=run.cluster,
            feeder=run.feeder,
        )
        self._identity = self._latest

    def continue_from(self, opened: Record) -> None:
        """Continue a connection of which `opened` is the record OPENED."""
        self._latest = self._identity = opened

    def opened(self, captured_at: int, position: int, *, mid_stream: bool) -> Record:
        """Make the record OPENED, which determines the ID of the connection."""
        sequence = self._next_sequence()
        shown = self._identity
        identity = connection_id(shown.cluster, shown.client, shown.server, shown.run, sequence)
        self._identity = msgspec.structs.replace(shown, connection=identity)
        flags = Flag.MID_STREAM if mid_stream else Flag.NONE
        return self._write(
            sequence, kind=Kind.OPENED, captured_at=captured_at, position=position, flags=flags
        )

    def record(self, kind: Kind, captured_at: int, position: int, **fields: Any) -> Record:
        """Make the next record; `fields` are those of Record."""
        return self._write(
            self._next_sequence(), kind=kind, captured_at=captured_at, position=position, **fields
        )

    @property
    def connection(self) -> bytes:
        """The connection's ID."""
        return self._identity.connection

    def forget_gap(self) -> None:
        """Note that the latest record is not a gap: another tracker has recorded frames since."""
        self._latest = self._identity

    def just_recorded_gap(self, direction: Direction) -> bool:
        """Whether the latest record of the connection is a GAP in this direction."""
        return self._latest.kind is Kind.GAP and self._latest.direction is direction

    def _write(self, sequence: int, **fields: Any) -> Record:
        # A connection that is continued has the flags and the position of its record OPENED.
        shared = self._identity
        self._latest = Record(
            connection=shared.connection,
            run=shared.run,
            client=shared.client,
            server=shared.server,
            cluster=shared.cluster,
            feeder=shared.feeder,
            sequence=sequence,
            **fields,
        )
        return self._latest


def connection_id(cluster: str, client: str, server: str, run: int, opening_sequence: int) -> bytes:
    """Return the ID of a connection from the fields of its record OPENED."""
    parts = (cluster, client, server, str(run), str(opening_sequence))
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).digest()


class FrameRecorder:
    """Makes the records of one connection's frames.

    `in_flight` has the requests that expect a response, `api_versions` the latest ApiVersions response.
    `expects_tokens` is true while frames of the client may be raw SASL tokens.
    """

    def __init__(self, detector: FrameDetector, recorder: Recorder, acknowledged_by: AcknowledgedBy) -> None:
        self.in_flight = RequestsInFlight()
        self.api_versions = LatestApiVersions(self.in_flight, acknowledged_by)
        self.expects_tokens = False
        self._detector = detector
        self._recorder = recorder

    def note_loss(self, direction: Direction) -> None:
        """Note that frames of a direction may have been missed."""
        # Consecutive losses are one gap. The first of them has decided what it may hide.
        if not self._recorder.just_recorded_gap(direction):
            self.api_versions.note_gap(direction)
        self.in_flight.note_loss()

    def invalid_size(self, direction: Direction, invalid: InvalidSize) -> Record:
        """Return the record of a length prefix that no frame can have."""
        self.in_flight.note_loss()
        return self._recorder.record(
            Kind.INVALID_SIZE,
            invalid.captured_at,
            invalid.position,
            direction=direction,
            true_length=invalid.size % SEQUENCE_SPACE,
        )

    def from_client(self, frame: Frame) -> Record:
        """Return the record of the client's next frame: a request or a raw SASL token."""
        if self.expects_tokens and not self._detector.is_request(frame.payload):
            return self._sasl_token(Direction.TO_BROKER, frame)
        self.expects_tokens = False
        if frame.true_length < SHORTEST_FRAME:
            return self.invalid_size(Direction.TO_BROKER, frame.invalid_size())
        flags = self.api_versions.flags_of(frame)
        record = self._record(Kind.REQUEST, Direction.TO_BROKER, frame, flags=flags)
        self.in_flight.note_request()
        if len(frame.payload) < _REQUEST_HEADER.size:
            self.in_flight.note_loss()
            return record
        api_key, api_version, correlation_id = _REQUEST_HEADER.unpack_from(frame.payload)
        self.expects_tokens = (api_key, api_version) == (SASL_HANDSHAKE, 0)
        expects_response = self._detector.expects_response(frame.payload)
        if expects_response is not False:
            request = RequestInFlight(
                record.sequence, correlation_id, api_key, api_version, frame.captured_at
            )
            self.in_flight.add(request, certain=expects_response is True)
        return record

    def from_broker(self, frame: Frame) -> Record:
        """Return the record of the broker's next frame: a response or a raw SASL token."""
        if self.expects_tokens and self.in_flight.is_empty:
            return self._sasl_token(Direction.TO_CLIENT, frame)
        if frame.true_length < SHORTEST_FRAME:
            return self.invalid_size(Direction.TO_CLIENT, frame.invalid_size())
        awaited_alone = self.in_flight.turn is Turn.BROKER
        pairing, request = self._pair(frame)
        if request is None:
            return self._unpaired(frame, pairing)
        if pairing is Pairing.MATCHED and request.api_key == API_VERSIONS:
            self.api_versions.response = ApiVersionsResponse(frame.end, frame.completed_at, awaited_alone)
        return self._record(
            Kind.RESPONSE,
            Direction.TO_CLIENT,
            frame,
            pairing=pairing,
            paired_sequence=request.sequence,
            paired_api_key=request.api_key,
            paired_api_version=request.api_version,
        )

    def _pair(self, frame: Frame) -> tuple[Pairing, RequestInFlight | None]:
        if len(frame.payload) < _CORRELATION_ID.size:
            self.in_flight.note_loss()
            return Pairing.UNKNOWN, None
        return self.in_flight.pair(_CORRELATION_ID.unpack_from(frame.payload)[0])

    def _unpaired(self, frame: Frame, pairing: Pairing) -> Record:
        """Record a response without a request. The missed request may have been ApiVersions."""
        fields: dict[str, object] = {"pairing": pairing}
        if pairing is Pairing.UNKNOWN and self._detector.is_api_versions(frame.payload, frame.true_length):
            self.api_versions.response = None
            fields["paired_api_key"] = API_VERSIONS
        return self._record(Kind.RESPONSE, Direction.TO_CLIENT, frame, **fields)

    def _sasl_token(self, direction: Direction, frame: Frame) -> Record:
        if direction is Direction.TO_BROKER:
            self.in_flight.note_request()
        else:
            self.in_flight.note_token_response()
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
