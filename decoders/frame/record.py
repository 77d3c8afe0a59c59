"""The record: one frame, or one event of a connection, with its connection, its time and its place.

A frame can be decoded from its record alone: the record of a response names the request it was paired with,
and that request's API and version. The feeder publishes records to `kipwatch.frames` in blocks, see
`columnar/block.py`.
"""

from __future__ import annotations

import enum
import ipaddress
import re
from typing import Final

import msgspec

NO_RECORD = 0
"""The sequence number of no record: they start at 1."""
NO_TIME = 1 << 62
"""Nanoseconds since the epoch, in the year 2116: captures are earlier, and sums of two times fit 64 bits."""
NAME_BYTES = 24
"""The most bytes of a cluster's or feeder's name in UTF-8. Every block and every finding repeats them."""
LONGEST_PLACEMENT: Final = 256
"""Characters of a placement. Longer ones are left out."""
_IN_KUBERNETES: Final = r"[A-Za-z0-9][A-Za-z0-9._-]*"
"""A name in Kubernetes."""
_PLACEMENT: Final = re.compile(rf"(?:{_IN_KUBERNETES}/{_IN_KUBERNETES})?@{_IN_KUBERNETES}")


class Kind(enum.IntEnum):
    """The kind of frame or event that a record reports."""

    REQUEST = 1
    RESPONSE = 2
    OPENED = 3
    CLOSED = 4
    GAP = 5
    HEARTBEAT = 6
    """The feeder has read all packets that were captured earlier. It belongs to no connection."""
    SASL_TOKEN = 7
    INVALID_SIZE = 8
    """An impossible frame length: below 4, or above what a broker accepts."""
    NOT_KAFKA = 9
    """A connection has ended that did not begin with a request of the client."""
    PRINCIPAL = 10
    """The client has shown the name under which it logs in. Only feeders that keep principals say so."""
    PLACEMENT = 11
    """Where the client runs, by the API of Kubernetes. Only feeders that watch pods say so."""


class Pairing(enum.IntEnum):
    """How a response relates to the requests before it."""

    NONE = 0
    """The record is no response."""
    MATCHED = 1
    FOREIGN = 2
    """Its correlation ID is not that of the oldest request in flight."""
    UNOWED = 3
    """No request is in flight."""
    UNKNOWN = 4
    """Frames may have been missed, and no request in flight is known to have its correlation ID."""


class Closing(enum.IntEnum):
    """The reason why tracking of a connection ended."""

    NONE = 0
    FIN = 1
    RST = 2
    IDLE = 3
    EVICTED = 4
    REPLACED = 5


class Direction(enum.IntEnum):
    """The direction of the bytes of a frame or a gap."""

    NONE = 0
    TO_BROKER = 1
    TO_CLIENT = 2


class Flag(enum.IntFlag):
    """Further facts that the feeder knows of a record."""

    NONE = 0
    MID_STREAM = 1
    """On OPENED: the beginning of the connection was not seen."""
    SETTLED = 2
    """On REQUEST: certainly sent after the client read the latest ApiVersions response of its connection."""
    INFORMED = 4
    """On REQUEST that is not SETTLED: the client's host had acknowledged the latest ApiVersions response and
    every later one, and the client does not pipeline. That alone does not prove that the client read it."""
    NAMED_PORT = 8
    """On NOT_KAFKA: the user names the server's port as one of a broker."""
    RESPONDED = 16
    """On NOT_KAFKA: the server sent something, so it speaks that protocol."""
    READ_WHOLE = 32
    """On REQUEST or RESPONSE of which bytes were cut away: the feeder read it whole, and nothing is wrong."""


class Endpoint(str):
    """An address and port as people write them: `127.0.0.1:9092`, `[::1]:9092`."""

    __slots__ = ()

    @classmethod
    def of(cls, address: bytes, port: int) -> Endpoint:
        """Name a packed IPv4 (4 bytes) or IPv6 (16 bytes) address and a TCP port."""
        if len(address) == 4:
            return cls("{}.{}.{}.{}:{}".format(*address, port))
        return cls(f"[{ipaddress.ip_address(address)}]:{port}")


def host_of(endpoint: str) -> str:
    """Return the host of an address and port, as it stands there: `127.0.0.1`, `[::1]`."""
    return endpoint.rpartition(":")[0]


class Record(msgspec.Struct, frozen=True, gc=False):
    """One record of a connection.

    `(run, sequence)` orders the records of a connection; all connections of a run share one sequence.
    `captured_at` is in nanoseconds since the epoch. `frame` holds the captured bytes of the frame without its
    length prefix, `true_length` is its length on the wire (of a GAP: the number of lost bytes, 0 if unknown;
    of an INVALID_SIZE: the claimed length, as an unsigned 32-bit number). Of a NOT_KAFKA, `frame` holds the
    first four bytes of the connection, of a PRINCIPAL the name in UTF-8, and of a PLACEMENT a text such as
    `payments/checkout@node-7`: namespace, workload and node, or only `@node-7`; empty if what was said of the
    connection before is wrong. `position` is the byte offset in the capture file. All numbers are signed
    64-bit integers, except `run`, which is unsigned. A response that is paired with no request, because
    frames were missed, has API_VERSIONS as `paired_api_key` if it can be the response to an ApiVersions
    request among them.
    """

    kind: Kind
    connection: bytes
    run: int
    sequence: int
    captured_at: int
    client: Endpoint
    server: Endpoint
    cluster: str = ""
    feeder: str = ""
    direction: Direction = Direction.NONE
    pairing: Pairing = Pairing.NONE
    closing: Closing = Closing.NONE
    flags: Flag = Flag.NONE
    paired_sequence: int = NO_RECORD
    paired_api_key: int = -1
    paired_api_version: int = -1
    position: int = 0
    true_length: int = 0
    frame: bytes = b""

    @property
    def is_cut(self) -> bool:
        """Whether bytes of the frame were not captured or were cut away."""
        return self.true_length > len(self.frame)


def is_placement(text: str) -> bool:
    """Whether a text is a placement: where a client runs in Kubernetes, such as `payments/checkout@node-7`.

    Only the node is known, `@node-7`, where its address is shared by whatever uses the node's network.
    """
    return len(text) <= LONGEST_PLACEMENT and _PLACEMENT.fullmatch(text) is not None


def workload_of(placement: str | None) -> str | None:
    """Return namespace and workload of a placement, such as `payments/checkout`, None if it has none."""
    return placement.partition("@")[0] or None if placement else None


def node_of(placement: str | None) -> str | None:
    """Return the node of a placement, None without one."""
    return placement.partition("@")[2] if placement else None
