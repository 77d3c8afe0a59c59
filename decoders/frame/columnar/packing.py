"""A batch of frames → topic records: as `pack` encodes each, without a `Record` for each."""

from __future__ import annotations

import dataclasses
from typing import Final

import numpy as np
from numpy.typing import NDArray

from decoders.frame.columnar.layout import ENVELOPE_TYPE
from decoders.frame.record import Kind, pack
from decoders.wire.columnar.frames import FrameBatch

_OF_FRAMES: Final = {
    "kind": "kinds",
    "direction": "directions",
    "pairing": "pairings",
    "flags": "flags",
    "sequence": "sequences",
    "captured_at": "captured_at",
    "paired_sequence": "paired_sequences",
    "paired_api_key": "paired_api_keys",
    "paired_api_version": "paired_api_versions",
    "position": "positions",
    "true_length": "true_lengths",
    "captured_length": "lengths",
}
"""The fields of the envelope that differ by frame, with their columns; the others are the connection's."""


class PackedFrames:
    """The frames of a batch as topic records, by row. Valid as long as the batch is."""

    def __init__(self, batch: FrameBatch) -> None:
        self._keys = [opening.connection for opening in batch.openings]
        self._connections: list[int] = batch.frames.connections.tolist()
        self._starts, self._lengths = batch.frames.starts.tolist(), batch.frames.lengths.tolist()
        self._envelopes: bytes = _envelopes(batch).tobytes()
        self._data: memoryview = batch.data.data

    def key(self, row: int) -> bytes:
        """Return the connection's ID."""
        connection: bytes = self._keys[self._connections[row]]
        return connection

    def value(self, row: int) -> bytes:
        """Return the envelope and the frame."""
        begin, start = row * ENVELOPE_TYPE.itemsize, self._starts[row]
        envelope = self._envelopes[begin : begin + ENVELOPE_TYPE.itemsize]
        return b"".join((envelope, self._data[start : start + self._lengths[row]]))


def _envelopes(batch: FrameBatch) -> NDArray[np.void]:
    # One envelope for each connection, into which the fields that differ by frame are written.
    named, numbers = np.unique(batch.frames.connections, return_inverse=True)
    blank = (dataclasses.replace(batch.openings[each], kind=Kind.REQUEST) for each in named.tolist())
    envelopes: NDArray[np.void] = np.frombuffer(b"".join(map(pack, blank)), ENVELOPE_TYPE)[numbers]
    for field, column in _OF_FRAMES.items():
        envelopes[field] = getattr(batch.frames, column)
    return envelopes
