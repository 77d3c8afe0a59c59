"""Buckets as earlier layouts kept them: version 2 everything by its name in one piece, version 3 in rows.

Version 1 belongs to a query of one stateful step, whose checkpoints Spark itself refuses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import zstandard

from expectations.judge import ConnectionState
from streaming.query.connections import Connections
from streaming.query.earlier_connections import ConnectionsOfVersion3, read_connections

EARLIER_VERSIONS = (2, 3)


class BucketOfVersion2(msgspec.Struct):
    """The layout of version 2."""

    connections: dict[bytes, ConnectionState] = {}
    clock: int = 0
    scheduled: bool = False
    republished_at: int = 0
    answered: dict[str, set[tuple[int, int]]] = {}


class BucketOfVersion3(msgspec.Struct, array_like=True):
    """The layout of version 3, which was compressed."""

    clock: int
    scheduled: bool
    republished_at: int
    answered: dict[str, set[tuple[int, int]]]
    connections: ConnectionsOfVersion3
    buckets: int = 0
    resumed_at: int = 0


def read_earlier(version: int, content: bytes) -> dict[str, Any]:
    """Read what stands behind the version; gives what a bucket has today, by name."""
    if version == 2:
        return _by_name(
            earlier := msgspec.msgpack.decode(content, type=BucketOfVersion2), earlier.connections
        )
    read = msgspec.msgpack.decode(zstandard.decompress(content), type=BucketOfVersion3)
    return _by_name(read, read_connections(read.connections))


def _by_name(bucket: msgspec.Struct, connections: Mapping[bytes, ConnectionState]) -> dict[str, Any]:
    kept = Connections()
    kept.update(connections)
    return {name: getattr(bucket, name) for name in bucket.__struct_fields__} | {"connections": kept}
