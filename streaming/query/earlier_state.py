"""Buckets as earlier layouts kept them: version 2 everything by its name in one piece, later ones in rows.

Version 1 belongs to a query of one stateful step, whose checkpoints Spark itself refuses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import zstandard

from expectations.conversation.conversation import Conversation
from expectations.identity.sightings import Sightings
from expectations.judge import ConnectionState, OpenFinding
from streaming.query.connections import Connections
from streaming.query.earlier_connections import (
    ConnectionsOfVersion3,
    ConnectionsOfVersion4,
    connections_of_version_3,
    connections_of_version_4,
    connections_of_version_5,
)
from streaming.query.earlier_members import EARLIER_RULE_STATES, rule_states

EARLIER_VERSIONS = (2, 3, 4, 5)


class ConnectionOfVersion2(msgspec.Struct):
    """The layout of one connection in version 2."""

    conversation: Conversation
    rules: EARLIER_RULE_STATES  # type: ignore[valid-type]  # made from the catalogue at run time
    findings: dict[str, OpenFinding] = {}
    sightings: Sightings = msgspec.field(default_factory=Sightings)


class BucketOfVersion2(msgspec.Struct):
    """The layout of version 2."""

    connections: dict[bytes, ConnectionOfVersion2] = {}
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


class BucketOfVersion4(BucketOfVersion3, array_like=True):
    """The layout of versions 4 and 5."""

    connections: ConnectionsOfVersion4  # type: ignore[assignment]  # in the place of the earlier ones


def read_earlier(version: int, content: bytes) -> dict[str, Any]:
    """Read what stands behind the version; gives what a bucket has today, by name."""
    if version == 2:
        earlier = msgspec.msgpack.decode(content, type=BucketOfVersion2)
        return _by_name(earlier, {name: _of_version_2(one) for name, one in earlier.connections.items()})
    content = zstandard.decompress(content)
    if version == 3:
        third = msgspec.msgpack.decode(content, type=BucketOfVersion3)
        return _by_name(third, connections_of_version_3(third.connections))
    fourth = msgspec.msgpack.decode(content, type=BucketOfVersion4)
    connections = connections_of_version_4 if version == 4 else connections_of_version_5
    return _by_name(fourth, connections(fourth.connections))


def _of_version_2(earlier: ConnectionOfVersion2) -> ConnectionState:
    return ConnectionState(
        earlier.conversation, rule_states(earlier.rules), earlier.findings, earlier.sightings
    )


def _by_name(bucket: msgspec.Struct, connections: Mapping[bytes, ConnectionState]) -> dict[str, Any]:
    kept = Connections()
    kept.update(connections)
    return {name: getattr(bucket, name) for name in bucket.__struct_fields__} | {"connections": kept}
