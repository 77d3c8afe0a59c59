"""A bucket: the connections whose state one Spark key holds, packed into few bytes.

One round trip to Spark's state store costs about the same for one connection as for hundreds, so connections
share a key. The state store has two values of a bucket. Each batch writes the first: a version byte, then the
rows of the connections, column by column, with what they share. The second is what few connections have
beside their rows: it is fetched when such a connection is read, and written when it changes.

For storage, and for transport between stages, rows of integers are narrowed: few bytes a value, similar bytes
adjacent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from decoders.compilation import compiled
from expectations.conversation.observation import Evidence
from expectations.judging.facts import Facts
from streaming.state import StateError
from streaming.state.connections import Connections, Contents, InFlightCounts, Server, Table
from streaming.state.packing import compress, decompress

STATE_VERSION: Final = 3
"""The layout of the first value; any other is refused."""
_TOGETHER: Final = 64
"""Columns of a matrix that are narrowed or widened at a time: by row, they stay in the processor's cache.

In memory the values of a column are adjacent.
"""
_Integers = NDArray[np.int64]


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


class Narrowed(msgspec.Struct, array_like=True, gc=False):
    """A matrix of integers, each row as offsets from its minimum.

    `count` is the length of a row. `leasts` and `widths` have the minimum of each row and the bytes that one
    offset takes. `above` has the least significant bytes of all offsets of the first row, their second bytes
    and so on, then those of the next row: similar bytes are adjacent, which compresses better.
    """

    count: int
    leasts: list[int]
    widths: bytes
    above: bytes


def narrowed(rows: _Integers) -> Narrowed:
    """Store a matrix of int64."""
    count = rows.shape[1]
    if not count:
        return Narrowed(0, [0] * len(rows), bytes(len(rows)), b"")
    leasts, mosts, widths = rows[:, 0].copy(), rows[:, 0].copy(), np.empty(len(rows), np.uint8)
    _measure(rows, leasts, mosts, widths)
    planes = np.empty((int(widths.sum()), count), np.uint8)
    _write_planes(rows, leasts, widths, planes)
    return Narrowed(count, leasts.tolist(), widths.tobytes(), planes.tobytes())


def widened(stored: Narrowed, order: Literal["C", "F"] = "C") -> _Integers:
    """Read a matrix back, into memory that is contiguous by row (C) or by column (F)."""
    widths = np.frombuffer(stored.widths, np.uint8)
    planes = np.frombuffer(stored.above, np.uint8).reshape(int(widths.sum()), stored.count)
    rows = np.empty((len(widths), stored.count), np.int64, order)
    _read_planes(planes, np.array(stored.leasts, np.int64), widths, rows)
    return rows


@compiled(None)
def _measure(rows: Any, leasts: Any, mosts: Any, widths: Any) -> None:
    """Lower the minimum and raise the maximum of each row; write the bytes of an offset: 8, 4, 2, 1, or 0."""
    for begin in range(0, rows.shape[1], _TOGETHER):
        end = min(begin + _TOGETHER, rows.shape[1])
        for row in range(len(rows)):
            least, most = leasts[row], mosts[row]
            for at in range(begin, end):
                least, most = min(least, rows[row, at]), max(most, rows[row, at])
            leasts[row], mosts[row] = least, most
    for row in range(len(rows)):
        spread = mosts[row] - leasts[row]
        # One that overflows int64 is negative.
        if spread < 0 or spread >> 32:
            widths[row] = 8
        elif spread >> 16:
            widths[row] = 4
        elif spread >> 8:
            widths[row] = 2
        else:
            widths[row] = spread > 0


@compiled(None)
def _write_planes(rows: Any, leasts: Any, widths: Any, planes: Any) -> None:
    for begin in range(0, rows.shape[1], _TOGETHER):
        end, plane = min(begin + _TOGETHER, rows.shape[1]), 0
        for row in range(len(widths)):
            for byte in range(widths[row]):
                for at in range(begin, end):
                    planes[plane, at] = (rows[row, at] - leasts[row]) >> 8 * byte & 0xFF
                plane += 1


@compiled(None)
def _read_planes(planes: Any, leasts: Any, widths: Any, rows: Any) -> None:
    for begin in range(0, rows.shape[1], _TOGETHER):
        end, plane = min(begin + _TOGETHER, rows.shape[1]), 0
        for row in range(len(widths)):
            for at in range(begin, end):
                rows[row, at] = leasts[row]
            for byte in range(widths[row]):
                for at in range(begin, end):
                    rows[row, at] += np.int64(planes[plane, at]) << 8 * byte
                plane += 1


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
