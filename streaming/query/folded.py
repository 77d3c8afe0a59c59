"""What the first stage hands to the second: the windows of one bucket, small enough to travel."""

from __future__ import annotations

import msgspec
import zstandard

from expectations.conversation.observation import ConnectionWindow


class Folded(msgspec.Struct):
    """What one Arrow batch says to one bucket.

    `unreadable` counts records that could not be unpacked. `captured` counts those of the whole batch by
    capture time, in tenths of a second; it is told to one bucket only.
    """

    windows: list[ConnectionWindow]
    unreadable: int = 0
    captured: dict[int, int] = {}


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Folded)
# Windows resemble each other: a tenth of their bytes passes from process to process.
_COMPRESSOR = zstandard.ZstdCompressor(level=1)
_DECOMPRESSOR = zstandard.ZstdDecompressor()


def pack_folded(folded: Folded) -> bytes:
    """Lay it out for the way."""
    return _COMPRESSOR.compress(_ENCODER.encode(folded))


def unpack_folded(packed: bytes) -> Folded:
    """Read it back."""
    return _DECODER.decode(_DECOMPRESSOR.decompress(packed))
