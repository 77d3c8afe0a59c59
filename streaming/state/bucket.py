"""A bucket: the connections whose state one Spark key holds, packed into few bytes.

One round trip to Spark's state store costs about the same for one connection as for hundreds, so connections
share a key. The state store has two values of a bucket. Each batch writes the first: a version byte, then the
rows of the connections, column by column, with what they share. The second is what few connections have
beside their rows: it is fetched when such a connection is read, and written when it changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec
import numpy as np

from expectations.conversation.observation import Evidence
from expectations.judging.facts import Facts
from streaming.state import StateError
from streaming.state.connections import Connections, Contents, InFlightCounts, Server, Table
from streaming.state.packing import Narrowed, compress, decompress, narrowed, widened

STATE_VERSION: Final = 3
"""The layout of the first value; any other is refused."""


@dataclass(slots=True)
class Bucket:
    """The connections of one bucket.

    `clock` is the latest capture time, in nanoseconds. `scheduled` tells whether the bucket's timer runs,
    which survives a restart like the state. `republished_at` and `resumed_at`, when the bucket resumed after
    a loss of frames, are in milliseconds. `answered` holds the API versions that each server is known to
    answer, by cluster and server. `buckets` is the number of buckets, 0 before it is known.
    """

    connections: Connections = field(default_factory=Connections)
    clock: int = 0
    scheduled: bool = False
    republished_at: int = 0
    answered: dict[str, set[tuple[int, int]]] = field(default_factory=dict)
    buckets: int = 0
    resumed_at: int = 0


class PackedBucket(NamedTuple):
    """The two values of a bucket. `contents` is None if it has not changed; `size` is the size of both."""

    bucket: bytes
    contents: bytes | None
    size: int


class _StoredConnections(msgspec.Struct, array_like=True):
    """The rows of connections, column by column, and the tables that they refer to."""

    ids: bytes
    clients: list[str]
    rows: Narrowed
    facts: list[Facts]
    servers: list[Server]
    in_flight: list[InFlightCounts]
    texts: list[str | Evidence]
    contents_size: int


class _StoredBucket(msgspec.Struct, array_like=True):
    """The layout of the first value: what a `Bucket` has."""

    clock: int
    scheduled: bool
    republished_at: int
    answered: dict[str, set[tuple[int, int]]]
    connections: _StoredConnections
    buckets: int
    resumed_at: int


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(_StoredBucket)


def pack_bucket(bucket: Bucket) -> PackedBucket:
    """Encode a bucket for the state store."""
    connections = bucket.connections
    connections.compact()
    contents = connections.contents.packed()
    values = {name: getattr(bucket, name) for name in _StoredBucket.__struct_fields__}
    stored = _StoredBucket(**values | {"connections": _stored(connections)})
    packed = bytes([STATE_VERSION]) + compress(_ENCODER.encode(stored))
    return PackedBucket(packed, contents, len(packed) + connections.contents.size)


def unpack_bucket(stored: bytes | None, contents: Callable[[], bytes | None]) -> Bucket:
    """Decode a bucket; None is one that was never stored. Raises StateError.

    `contents` fetches the second value. It is called when a connection is first read that has content.
    """
    if stored is None:
        return Bucket()
    version, content = stored[0], stored[1:]
    if version != STATE_VERSION:
        raise StateError(
            f"the checkpoint holds state of version {version}, this kipwatch writes {STATE_VERSION}: "
            "run the kipwatch that wrote it, or start with a new checkpoint folder"
        )
    read = _DECODER.decode(decompress(content))
    return Bucket(**msgspec.structs.asdict(read) | {"connections": _connections(read.connections, contents)})


def _stored(connections: Connections) -> _StoredConnections:
    return _StoredConnections(
        connections.ids,
        connections.clients,
        narrowed(connections.rows.T),
        connections.facts.values,
        connections.servers.values,
        connections.in_flight.values,
        connections.texts.values,
        connections.contents.size,
    )


def _connections(stored: _StoredConnections, contents: Callable[[], bytes | None]) -> Connections:
    connections = Connections()
    connections.ids, connections.clients = stored.ids, stored.clients
    connections.rows = widened(stored.rows, order="F").T
    connections.is_stored = np.ones(len(connections.rows), np.bool_)
    connections.facts, connections.servers = Table(stored.facts), Table(stored.servers)
    connections.in_flight, connections.texts = Table(stored.in_flight), Table(stored.texts)
    connections.contents = Contents(stored.contents_size, contents)
    return connections
