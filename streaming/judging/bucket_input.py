"""What the decode stage passes to one bucket: the windows of its connections, packed for the way."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import zstandard
from numpy.typing import NDArray

from decoders.frame.columnar.block import ID_BYTES
from decoders.frame.columnar.pieces import bounds_of
from expectations.conversation.columnar.window_columns import FIELDS, WindowColumns
from expectations.conversation.statement import Statement
from expectations.conversation.window import Window
from streaming.judging.quarantine import Quarantined

_Integers = NDArray[np.int64]
_Numbers = tuple[int, str, bytes]
"""Integers as what they are above the least of them: that, the dtype, and the rest."""
_WIDTHS = ("u1", "<u2", "<u4", "<u8")


class PackedWindows(msgspec.Struct, array_like=True, gc=False):
    """Windows for the way: the columns of `WindowColumns`, with the statements that they use, in order."""

    ids: bytes
    clients: list[str]
    servers: list[tuple[str, str, int]]
    server_of: _Numbers
    counts: _Numbers
    numbers: _Numbers
    values: list[_Numbers]
    sources: list[str]
    beginnings: bytes
    lengths: _Numbers
    statements: list[Statement]

    @classmethod
    def of(cls, columns: WindowColumns) -> PackedWindows:
        """Lay windows out for the way."""
        used, numbers = np.unique(columns.numbers, return_inverse=True)
        return cls(
            columns.ids,
            list(columns.clients),
            list(columns.servers),
            _narrowed(columns.server_of),
            _narrowed(np.diff(columns.bounds)),
            _narrowed(numbers),
            [_narrowed(row) for row in columns.values],
            list(columns.sources),
            columns.beginnings.tobytes(),
            _narrowed(np.diff(columns.begins)),
            [columns.statements[number] for number in used.tolist()],
        )

    def columns(self) -> WindowColumns:
        """Return the windows as they were laid out; their statements are numbered anew."""
        numbers = _widened(self.numbers)
        values = np.empty((len(FIELDS), len(numbers)), np.int64)
        for row, narrowed in zip(values, self.values, strict=True):
            row[:] = _widened(narrowed)
        return WindowColumns(
            self.ids,
            self.clients,
            self.servers,
            _widened(self.server_of),
            bounds_of(_widened(self.counts)),
            numbers,
            values,
            self.sources,
            np.frombuffer(self.beginnings, np.uint8),
            bounds_of(_widened(self.lengths)),
            dict(enumerate(self.statements)),
        )


class BucketInput(msgspec.Struct):
    """The part of one Arrow batch that concerns one bucket.

    `said` are the windows, None if there are none. Only one bucket of a batch gets what concerns the whole
    batch: `captured` counts the records by capture time, in tenths of a second since the epoch, `blocks` what
    was read from the topic, `read_to` the offset behind it by partition, and `unreadable` those of that which
    are no blocks, for the reason `refusal`; `quarantined` are the first of these.
    """

    said: PackedWindows | None = None
    unreadable: int = 0
    refusal: str = ""
    quarantined: list[Quarantined] = []
    captured: dict[int, int] = {}
    blocks: int = 0
    read_to: dict[int, int] = {}

    def columns(self) -> WindowColumns:
        """Return the windows as columns."""
        return WindowColumns.of([]) if self.said is None else self.said.columns()

    def windows(self) -> Sequence[Window]:
        """Return the windows."""
        return self.columns().windows()


def bucket_of(connection: bytes, buckets: int) -> int:
    """Return the bucket of a connection."""
    return int.from_bytes(connection[:4]) % buckets


def by_bucket(columns: WindowColumns, buckets: int) -> dict[int, BucketInput]:
    """Divide windows by `bucket_of` their connection; in each they stay in order."""
    numbers = np.frombuffer(columns.ids, ">u4").reshape(-1, ID_BYTES // 4)[:, 0] % buckets
    order = np.argsort(numbers, kind="stable")
    sorted_columns, found = columns.chosen(order), numbers[order]
    edges = np.flatnonzero(np.diff(found.astype(np.int64), prepend=-1, append=-1)).tolist()
    return {
        int(found[begin]): BucketInput(PackedWindows.of(sorted_columns.part(begin, end)))
        for begin, end in pairwise(edges)
    }


def _narrowed(values: _Integers) -> _Numbers:
    """Store integers in as few bytes as their range needs."""
    if not len(values):
        return 0, _WIDTHS[0], b""
    least, most = int(values.min()), int(values.max())
    width = next(width for width in _WIDTHS if most - least <= np.iinfo(width).max)
    # Differences of int64 are right as unsigned integers, even where they do not fit into int64.
    return least, width, (values - np.int64(least)).astype(width).tobytes()


def _widened(numbers: _Numbers) -> Any:
    least, width, stored = numbers
    return np.frombuffer(stored, width).astype(np.int64) + np.int64(least)


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(BucketInput)
# Windows are similar: a fraction of their bytes travels from process to process.
_COMPRESSOR = zstandard.ZstdCompressor(level=1)
_DECOMPRESSOR = zstandard.ZstdDecompressor()


def pack_input(given: BucketInput) -> bytes:
    """Encode and compress."""
    return _COMPRESSOR.compress(_ENCODER.encode(given))


def unpack_input(packed: bytes) -> BucketInput:
    """Decompress and decode."""
    return _DECODER.decode(_DECOMPRESSOR.decompress(packed))
