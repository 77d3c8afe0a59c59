"""Observations: what one record said, as far as any rule cares.

An observation may stand for several equal records (see `fold`): `count` of them, the first and the
last by sequence. Observations travel between Spark stages and are stored in state, so they are
plain structures with a stable layout.
"""

from __future__ import annotations

import msgspec

from decoders.frame.record import Closing, Direction, Kind, Pairing, Record

HEARTBEAT_APIS = {68: "ConsumerGroupHeartbeat", 76: "ShareGroupHeartbeat", 88: "StreamsGroupHeartbeat"}
"""The APIs whose member ID KIP-1082 speaks of."""

EVIDENCE_BYTES = 64

API_VERSIONS = 18
SASL_HANDSHAKE = 17


class SoftwareClaim(msgspec.Struct, frozen=True, array_like=True, tag="software"):
    """What an ApiVersions request of version 3 or later says of the client's software (KIP-511)."""

    name: str
    version: str


class Advertisement(msgspec.Struct, frozen=True, array_like=True, tag="advertisement"):
    """An ApiVersions answer: `ranges` are (API key, lowest version, highest version)."""

    error_code: int
    body_version: int
    ranges: tuple[tuple[int, int, int], ...]


class Heartbeat(msgspec.Struct, frozen=True, array_like=True, tag="heartbeat"):
    """A group heartbeat.

    `member_id` is None where the bytes carry a null. No schema allows that, so the frame cannot be
    decoded and nothing else of it is known.
    """

    member_id: str | None
    group_id: str | None = None
    member_epoch: int | None = None


class HeartbeatAnswer(msgspec.Struct, frozen=True, array_like=True, tag="heartbeat-answer"):
    """A group coordinator's answer to a heartbeat. `heartbeat_interval` is in milliseconds."""

    error_code: int
    member_id: str | None
    heartbeat_interval: int


class Failure(msgspec.Struct, frozen=True, array_like=True):
    """Why a complete frame could not be decoded: the field's path and its byte offset in the frame."""

    reason: str
    path: str
    offset: int


class Evidence(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Where the frame stands, and how it begins.

    In a capture file: its name and the byte `position` of the packet. In a topic: its name, the
    `partition` and the `offset` of the record. `bytes` holds the frame's first 64 bytes, in hex.
    """

    source: str
    bytes: str
    position: int | None = None
    partition: int | None = None
    offset: int | None = None

    @classmethod
    def in_file(cls, name: str, record: Record) -> Evidence:
        """Point to a record of a capture file."""
        return cls(source=name, position=record.position, bytes=_beginning(record))

    @classmethod
    def in_topic(cls, name: str, partition: int, offset: int, record: Record) -> Evidence:
        """Point to a record of a topic."""
        return cls(source=name, partition=partition, offset=offset, bytes=_beginning(record))


def _beginning(record: Record) -> str:
    return record.frame[:EVIDENCE_BYTES].hex()


Body = SoftwareClaim | Advertisement | Heartbeat | HeartbeatAnswer


class Observation(msgspec.Struct, frozen=True, array_like=True):
    """One record, or `count` equal ones, of a connection.

    Sequences and times are those of the first and the last record; times are in nanoseconds since
    the epoch. For an answer, `api_key` and `api_version` are those of the request it was paired
    with. `known` is False where the schemas do not know the API version; then nothing beyond key,
    version and correlation ID is told. `header_version`, `client_id` and `client_instance_id` (16
    bytes, None where the header has no such field) are told only of frames whose header is certain.
    """

    kind: Kind
    first_sequence: int
    last_sequence: int
    first_captured_at: int
    last_captured_at: int
    evidence: Evidence
    count: int = 1
    direction: Direction = Direction.NONE
    pairing: Pairing = Pairing.NONE
    closing: Closing = Closing.NONE
    mid_stream: bool = False
    settled: bool = False
    known: bool = True
    cut: bool = False
    api_key: int = -1
    api_version: int = -1
    correlation_id: int | None = None
    paired_sequence: int = 0
    header_version: int | None = None
    client_id: str | None = None
    client_instance_id: bytes | None = None
    failure: Failure | None = None
    body: Body | None = None

    @property
    def has_header(self) -> bool:
        """Whether the request's header is certain."""
        return self.header_version is not None

    @property
    def uses_header_v3(self) -> bool:
        """Whether the request carries KIP-1313's header."""
        return self.header_version == 3

    @property
    def instance_id(self) -> bytes | None:
        """The client instance ID, None where there is none or it is zero."""
        return self.client_instance_id if self.client_instance_id and any(self.client_instance_id) else None


class ConnectionWindow(msgspec.Struct, array_like=True):
    """What one window of the stream says of one connection, in the order of the first sequences."""

    connection: bytes
    cluster: str
    client: str
    server: str
    run: int
    observations: list[Observation]
