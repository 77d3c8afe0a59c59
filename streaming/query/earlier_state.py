"""Buckets as an earlier layout kept them: everything by its name, in one piece."""

from __future__ import annotations

import msgspec

from expectations.judge import ConnectionState
from streaming.query.connections import Connections

EARLIER_VERSIONS = (2,)
"""Version 1 belongs to a query of one stateful step, whose checkpoints Spark itself refuses."""


class EarlierBucket(msgspec.Struct):
    """The layout of version 2."""

    connections: dict[bytes, ConnectionState] = {}
    clock: int = 0
    scheduled: bool = False
    republished_at: int = 0
    answered: dict[str, set[tuple[int, int]]] = {}

    def kept(self) -> Connections:
        """Give the connections as they are kept today."""
        connections = Connections()
        connections.update(self.connections)
        return connections


_DECODER = msgspec.msgpack.Decoder(EarlierBucket)


def read_earlier(content: bytes) -> EarlierBucket:
    """Read what stands behind the version."""
    return _DECODER.decode(content)
