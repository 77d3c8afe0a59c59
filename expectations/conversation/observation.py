"""Observations: what one record said, as far as any rule cares.

An observation may stand for several equal records (see `fold`): `count` of them, the first and the
last by sequence. Observations travel between Spark stages and are stored in state, so they are
plain structures with a stable layout.
"""

from __future__ import annotations

import msgspec

from decoders.frame.record import Closing, Direction, Kind, Pairing, Record
from decoders.schema.header_versions import Layout

EVIDENCE_BYTES = 64

LONGEST_SHARE_MEMBER_ID = 36
"""UTF-16 code units that brokers take at most in the member ID of a Share request."""

NO_NODE = -1
"""The node ID of nobody."""
OTHER_HEADER = -1
"""The body version of an ApiVersions refusal behind a header that it must not have."""


class SoftwareClaim(msgspec.Struct, frozen=True, array_like=True, tag="software", gc=False):
    """What an ApiVersions request of version 3 or later says of the client's software (KIP-511).

    From version 5 on it may also say which broker the client means to reach (KIP-1242): a
    `cluster_id` of None and a `node_id` of -1 are not given.
    """

    name: str
    version: str
    cluster_id: str | None = None
    node_id: int = NO_NODE

    @property
    def gives_ids(self) -> bool:
        """Whether the client says which cluster or which broker it means to reach."""
        return self.cluster_id is not None or self.node_id != NO_NODE

    @property
    def is_half_identified(self) -> bool:
        """Whether exactly one of cluster and node is given."""
        return (self.cluster_id is None) != (self.node_id == NO_NODE)


class Advertisement(msgspec.Struct, frozen=True, array_like=True, tag="advertisement", gc=False):
    """An ApiVersions answer: `ranges` are (API key, lowest version, highest version).

    A refusal that only makes sense behind response header 1 has the `body_version` OTHER_HEADER.
    """

    error_code: int
    body_version: int
    ranges: tuple[tuple[int, int, int], ...]


_NAMING_NOBODY = "".join(map(chr, range(ord(" ") + 1)))


class Heartbeat(msgspec.Struct, frozen=True, array_like=True, tag="heartbeat", gc=False):
    """A group heartbeat.

    `member_id` is None where the bytes carry a null. No schema allows that, so the frame cannot be
    decoded and nothing else of it is known.
    """

    member_id: str | None
    group_id: str | None = None
    member_epoch: int | None = None

    @property
    def has_member_id(self) -> bool:
        """Whether a member is named. As in the broker, characters up to U+0020 name nobody."""
        return self.member_id is not None and self.member_id.strip(_NAMING_NOBODY) != ""


class HeartbeatAnswer(msgspec.Struct, frozen=True, array_like=True, tag="heartbeat-answer", gc=False):
    """A group coordinator's answer to a heartbeat. `heartbeat_interval` is in milliseconds."""

    error_code: int
    member_id: str | None
    heartbeat_interval: int


class TelemetryIdentity(msgspec.Struct, frozen=True, array_like=True, tag="telemetry", gc=False):
    """The client instance ID in a telemetry request's or answer's body, as Kafka writes it (KIP-714)."""

    instance_id: str


class LongMemberId(msgspec.Struct, frozen=True, array_like=True, tag="long-member-id", gc=False):
    """A member ID in ShareFetch or ShareAcknowledge that is longer than brokers take."""

    member_id: str


class ClusterDescription(msgspec.Struct, frozen=True, array_like=True, tag="cluster", gc=False):
    """What a broker says of itself in a Metadata or DescribeCluster answer without error.

    `node_id` is that of the one broker listed under the very address that the client is connected
    to, -1 if there is none or more than one.
    """

    cluster_id: str | None
    node_id: int

    def is_meant_by(self, claim: SoftwareClaim) -> bool:
        """Whether a client that makes this claim means to reach this broker."""
        return (self.cluster_id, self.node_id) == (claim.cluster_id, claim.node_id)


def utf16_units(text: str) -> int:
    """Count UTF-16 code units, the length of a string in Java."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


class Failure(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Why a complete frame could not be decoded: the field's path and its byte offset in the frame."""

    reason: str
    path: str
    offset: int

    @property
    def context(self) -> dict[str, str]:
        """What a finding tells of it; "-" is the frame as a whole."""
        return {"reason": self.reason, "path": self.path or "-", "offset": str(self.offset)}


class Evidence(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """Where the frame stands, and how it begins.

    In a capture file: its name, the byte `position` of the packet and, in a report, its number, counted
    from 1. In a topic: its name, the `partition` and the `offset` of the record. `bytes` holds the
    frame's first 64 bytes, in hex.
    """

    source: str
    bytes: str
    position: int | None = None
    partition: int | None = None
    offset: int | None = None
    packet: int | None = None

    @classmethod
    def in_file(cls, name: str, record: Record) -> Evidence:
        """Point to a record of a capture file."""
        return cls(source=name, position=record.position, bytes=beginning_of(record).hex())

    @classmethod
    def in_topic(cls, name: str, partition: int, offset: int, record: Record) -> Evidence:
        """Point to a record of a topic."""
        return cls(source=name, partition=partition, offset=offset, bytes=beginning_of(record).hex())


def beginning_of(record: Record) -> bytes:
    """Give as many first bytes of a frame as evidence holds."""
    return record.frame[:EVIDENCE_BYTES]


Body = (
    SoftwareClaim
    | Advertisement
    | Heartbeat
    | HeartbeatAnswer
    | ClusterDescription
    | TelemetryIdentity
    | LongMemberId
)


class Observation(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One record, or `count` equal ones, of a connection.

    Sequences and times are those of the first and the last record; times are in nanoseconds since
    the epoch. `previous_captured_at` is that of the last record but one, 0 where there is one only. For an
    answer, `api_key` and `api_version` are those of the request it was paired
    with. `known` is False where the schemas do not know the API version; then nothing beyond key,
    version and correlation ID is told. `header_version`, `client_id`, `client_instance_id` (16 bytes,
    None where the header has no such field) and `layout`, which tells how the header carries it, are
    told only of frames whose header is certain.

    `oddity` is what the frame leaves over although it decodes: bytes behind the body, or a tagged field
    of another size than announced. `size` is the length that an impossible length prefix claims.
    `errors` are the distinct error codes of an answer that was read whole; empty where it has no field
    or no item for one. `other_header` is the one header version behind which a request makes sense, if
    that is not the one it should have. `owes_answer` is False for a request that no answer is due to.
    `unproven` tells of one that is not known because the byte was cut away that would prove its version.
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
    oddity: Failure | None = None
    errors: tuple[int, ...] | None = None
    layout: Layout | None = None
    other_header: int | None = None
    owes_answer: bool = True
    size: int = 0
    previous_captured_at: int = 0
    unproven: bool = False

    @property
    def has_header(self) -> bool:
        """Whether the request's header is certain."""
        return self.header_version is not None

    @property
    def is_matched(self) -> bool:
        """Whether the answer is known to belong to its request."""
        return self.pairing is Pairing.MATCHED

    @property
    def is_clean(self) -> bool:
        """Whether a frame was read to its last byte, of a certain header or paired with its request."""
        if not self.known or self.cut or self.failure is not None or self.oddity is not None:
            return False
        if self.kind is Kind.RESPONSE:
            return self.pairing is Pairing.MATCHED
        return self.kind is Kind.REQUEST and self.header_version is not None and self.other_header is None

    @property
    def uses_header_v3(self) -> bool:
        """Whether the request carries KIP-1313's header."""
        return self.header_version == 3

    @property
    def instance_id(self) -> bytes | None:
        """The client instance ID, None where there is none or it is zero."""
        return self.client_instance_id if self.client_instance_id and any(self.client_instance_id) else None
