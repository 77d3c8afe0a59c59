"""How a bucket is laid out in the state store: a value that each batch moves, and one that only news changes.

The first begins with a version; that of a version which is not known is refused. The second holds the
contents of its connections: while these merely repeat themselves it is neither read nor written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec
import zstandard

from streaming.state.bucket import Bucket
from streaming.state.connections import Connections, StoredConnections
from streaming.state.contents import StoredContents
from streaming.state.state_error import StateError

STATE_VERSION = 1


class PackedBucket(NamedTuple):
    """A bucket as its two values. `contents` is None where it is as it was; `size` is the bytes of both."""

    standing: bytes
    contents: bytes | None
    size: int


class _Standing(msgspec.Struct, array_like=True):
    """The layout of the first value."""

    clock: int
    scheduled: bool
    republished_at: int
    answered: dict[str, set[tuple[int, int]]]
    connections: StoredConnections
    buckets: int
    resumed_at: int


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(_Standing)
_COMPRESSOR = zstandard.ZstdCompressor(level=1)
_DECOMPRESSOR = zstandard.ZstdDecompressor()


def pack_bucket(bucket: Bucket) -> PackedBucket:
    """Lay a bucket out for the state store."""
    connections, contents = bucket.connections.stored()
    standing = _Standing(
        bucket.clock,
        bucket.scheduled,
        bucket.republished_at,
        bucket.answered,
        connections,
        bucket.buckets,
        bucket.resumed_at,
    )
    packed = bytes([STATE_VERSION]) + _COMPRESSOR.compress(_ENCODER.encode(standing))
    return PackedBucket(packed, contents, len(packed) + connections.contents_size)


def unpack_bucket(standing: bytes | None, contents: Callable[[], bytes | None]) -> Bucket:
    """Read a bucket back; None is a bucket that was never stored. Raises StateError.

    `contents` gives the other value. It is asked when a connection is read, at the latest when the bucket is
    packed.
    """
    if standing is None:
        return Bucket()
    version, content = standing[0], standing[1:]
    if version != STATE_VERSION:
        raise StateError(
            f"the checkpoint holds state of version {version}, this kipwatch writes {STATE_VERSION}: "
            "run the kipwatch that wrote it, or start with a new checkpoint folder"
        )
    read = _DECODER.decode(_DECOMPRESSOR.decompress(content))
    return Bucket(
        Connections(read.connections, StoredContents(read.connections.contents_size, contents)),
        read.clock,
        read.scheduled,
        read.republished_at,
        read.answered,
        read.buckets,
        read.resumed_at,
    )
