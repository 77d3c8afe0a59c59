"""The layout of a bucket in the state store: one value that each batch moves, one that only news changes.

The first begins with the version of the layout; any other version is refused. The second holds the contents
of the connections: while these repeat themselves, it is neither read nor written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec
import zstandard

from streaming.state.bucket import Bucket
from streaming.state.connections import Connections, StoredConnections
from streaming.state.contents import Contents
from streaming.state.state_error import StateError

STATE_VERSION = 1


class PackedBucket(NamedTuple):
    """The two values of a bucket. `contents` is None if it has not changed; `size` is the size of both."""

    bucket: bytes
    contents: bytes | None
    size: int


class _StoredBucket(msgspec.Struct, array_like=True):
    """The layout of the first value."""

    clock: int
    scheduled: bool
    republished_at: int
    answered: dict[str, set[tuple[int, int]]]
    connections: StoredConnections
    buckets: int
    resumed_at: int


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(_StoredBucket)
_COMPRESSOR = zstandard.ZstdCompressor(level=1)
_DECOMPRESSOR = zstandard.ZstdDecompressor()


def pack_bucket(bucket: Bucket) -> PackedBucket:
    """Encode a bucket for the state store."""
    connections, contents = bucket.connections.stored()
    stored = _StoredBucket(
        bucket.clock,
        bucket.scheduled,
        bucket.republished_at,
        bucket.answered,
        connections,
        bucket.buckets,
        bucket.resumed_at,
    )
    packed = bytes([STATE_VERSION]) + _COMPRESSOR.compress(_ENCODER.encode(stored))
    return PackedBucket(packed, contents, len(packed) + connections.contents_size)


def unpack_bucket(stored: bytes | None, contents: Callable[[], bytes | None]) -> Bucket:
    """Decode a bucket; None is one that was never stored. Raises StateError.

    `contents` fetches the second value. It is called when a connection is first read, or when the bucket is
    packed.
    """
    if stored is None:
        return Bucket()
    version, content = stored[0], stored[1:]
    if version != STATE_VERSION:
        raise StateError(
            f"the checkpoint holds state of version {version}, this kipwatch writes {STATE_VERSION}: "
            "run the kipwatch that wrote it, or start with a new checkpoint folder"
        )
    read = _DECODER.decode(_DECOMPRESSOR.decompress(content))
    return Bucket(
        Connections(read.connections, Contents(read.connections.contents_size, contents)),
        read.clock,
        read.scheduled,
        read.republished_at,
        read.answered,
        read.buckets,
        read.resumed_at,
    )
