"""Topic records from columns: what `pack` makes of each frame of a batch, without a `Record` for it."""

from __future__ import annotations

import dataclasses
from typing import Final

import numpy as np
from numpy.typing import NDArray

from decoders.frame.record import NAME_BYTES, Kind, pack
from decoders.wire.columnar.frames import FrameBatch, FrameColumns

_ENVELOPE: Final = np.dtype(
    [
        ("version", "u1"),
        ("kinds", "u1"),
        ("directions", "u1"),
        ("pairings", "u1"),
        ("closing", "u1"),
        ("flags", "u1"),
        ("run", ">u8"),
        ("sequences", ">i8"),
        ("captured_at", ">i8"),
        ("paired_sequences", ">i8"),
        ("paired_api_keys", ">i2"),
        ("paired_api_versions", ">i2"),
        ("positions", ">i8"),
        ("true_lengths", ">i8"),
        ("client_and_server", "V36"),
        ("cluster_and_feeder", f"V{2 * NAME_BYTES}"),
        ("lengths", ">u4"),
    ]
)
"""The layout of `frame/record.py`; what is of each frame has the names of `FrameColumns`."""
_OF_FRAMES: Final = [name for name in FrameColumns._fields if name in (_ENVELOPE.names or ())]


class PackedFrames:
    """The frames of a batch as topic records, by row. Good as long as the batch is."""

    def __init__(self, batch: FrameBatch) -> None:
        self._keys = [opening.connection for opening in batch.openings]
        self._connections: list[int] = batch.frames.connections.tolist()
        self._starts, self._lengths = batch.frames.starts.tolist(), batch.frames.lengths.tolist()
        self._envelopes: bytes = _envelopes(batch).tobytes()
        self._data: memoryview = batch.data.data

    def key(self, row: int) -> bytes:
        """Give the connection's ID."""
        connection: bytes = self._keys[self._connections[row]]
        return connection

    def value(self, row: int) -> bytes:
        """Give the envelope and the frame."""
        begin, start = row * _ENVELOPE.itemsize, self._starts[row]
        envelope = self._envelopes[begin : begin + _ENVELOPE.itemsize]
        return b"".join((envelope, self._data[start : start + self._lengths[row]]))


def _envelopes(batch: FrameBatch) -> NDArray[np.void]:
    # A record of each connection says what all have in common; what is of each frame is put over it.
    named, numbers = np.unique(batch.frames.connections, return_inverse=True)
    blank = (dataclasses.replace(batch.openings[each], kind=Kind.REQUEST) for each in named.tolist())
    envelopes: NDArray[np.void] = np.frombuffer(b"".join(map(pack, blank)), _ENVELOPE)[numbers]
    for name in _OF_FRAMES:
        envelopes[name] = getattr(batch.frames, name)
    return envelopes
