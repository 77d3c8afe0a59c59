"""One block: its bytes, checked, as the columns that it holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from decoders.frame.columnar.block import (
    FORMAT_VERSION,
    ID_BYTES,
    MOST_FRAMES,
    OF_FRAMES,
    SCHEMA,
    VERSION_HEADER,
    BlockError,
)
from decoders.frame.columnar.block_sizes import check_sizes
from decoders.frame.record import NAME_BYTES, NO_RECORD, NO_TIME, Closing, Direction, Kind, Pairing

SHARED: Final = ("server", "cluster", "feeder")
"""The columns that are dictionaries of names."""
_TOLD_OTHERWISE: Final = ("sequence", "paired_sequence", "position")
"""Fields of a record that rows tell as a step or a distance."""
_OPTIONS: Final = pa.ipc.IpcReadOptions(use_threads=False)
_NUMBERS: Final = {
    **dict.fromkeys(("sequence", "paired_sequence", "position"), 1 << 62),
    "captured_at": NO_TIME,
    "true_length": 1 << 40,
}
"""What the numbers of a block must be below, far above what a feeder writes: sums of them fit 64 bits."""
_ENUMERATIONS: Final = {"kind": Kind, "direction": Direction, "pairing": Pairing, "closing": Closing}


class BlockColumns(NamedTuple):
    """The columns of a block by the names of a record's fields; those of dictionaries hold codes.

    `ids` and `clients` are those of the connections by code, `names` the texts of the other dictionaries. The
    frame of row i is `data[offsets[i] : offsets[i + 1]]`.
    """

    values: dict[str, NDArray[Any]]
    ids: Sequence[bytes]
    clients: Sequence[str]
    names: dict[str, Sequence[str]]
    data: NDArray[np.uint8]
    offsets: NDArray[np.int32]


def read_columns(value: pa.Buffer | bytes) -> BlockColumns:
    """Read a block. Raises BlockError if it is damaged, of another format, or declares too much."""
    try:
        check_sizes(memoryview(value).cast("B"))
        with pa.ipc.open_stream(pa.py_buffer(value), options=_OPTIONS) as stream:
            _check_schema(stream.schema)
            batch = stream.read_next_batch()
        batch.validate(full=True)
    except (pa.ArrowException, OSError, StopIteration) as error:
        raise BlockError(f"damaged: {str(error).splitlines()[0]}") from error
    if any(column.null_count for column in batch.columns):
        raise BlockError("damaged: a value is missing")
    return _columns(batch)


def _check_schema(schema: pa.Schema) -> None:
    told = (schema.metadata or {}).get(VERSION_HEADER.encode())
    if told != b"%d" % FORMAT_VERSION:
        version = (
            "no block of kipwatch"
            if told is None
            else f"a block of version {told.decode(errors='replace')!r}"
        )
        raise BlockError(f"{version}; this kipwatch reads version {FORMAT_VERSION}")
    if not schema.equals(SCHEMA):
        raise BlockError("a block with other columns")


def _columns(batch: pa.RecordBatch) -> BlockColumns:
    values: dict[str, NDArray[Any]] = {}
    names: dict[str, Sequence[str]] = {}
    for name in ("run", *(name for name in OF_FRAMES if name not in _TOLD_OTHERWISE), "closing"):
        column = batch.column(name)
        values[name] = (column.cast(pa.int64()) if name == "captured_at" else column).to_numpy()
    for name in ("sequence", "position"):
        values[name] = np.cumsum(batch.column(f"{name}_step").to_numpy())
    distances = batch.column("paired_distance").to_numpy()
    values["paired_sequence"] = np.where(distances == 0, NO_RECORD, values["sequence"] - distances)
    for name, enumeration in _ENUMERATIONS.items():
        if values[name].max(initial=0) > max(enumeration) or (name == "kind" and not values[name].all()):
            raise BlockError(f"an unknown {name}")
    for name, limit in _NUMBERS.items():
        if values[name].min(initial=0) < 0 or values[name].max(initial=0) >= limit:
            raise BlockError(f"a {name} that no feeder writes")
    for name in ("connection", *SHARED):
        column = batch.column(name)
        if len(column.dictionary) > MOST_FRAMES:
            raise BlockError(f"a dictionary of {len(column.dictionary)} values for {name}")
        values[name] = column.indices.to_numpy()
        if name != "connection":
            names[name] = _texts(column.dictionary)
    if any(len(name.encode()) > NAME_BYTES for name in (*names["cluster"], *names["feeder"])):
        raise BlockError("a name that is too long")
    speakers = batch.column("connection").dictionary
    packed = _fixed(speakers.field("id"))
    ids = [packed[at : at + ID_BYTES] for at in range(0, len(packed), ID_BYTES)]
    data, offsets = _contents(batch.column("frame"))
    return BlockColumns(values, ids, _texts(speakers.field("client")), names, data, offsets)


def _texts(array: pa.Array) -> Sequence[str]:
    # Arrow's to_pylist takes several times as long.
    if array.null_count:
        raise BlockError("damaged: a name is missing")
    texts: list[str] = array.to_numpy(zero_copy_only=False).tolist()
    return texts


def _fixed(ids: pa.Array) -> bytes:
    _, data = ids.buffers()
    begin, end = ids.offset * ID_BYTES, (ids.offset + len(ids)) * ID_BYTES
    packed: bytes = data.to_pybytes()[begin:end] if data is not None else b""
    if len(packed) < end - begin:
        raise BlockError("damaged: an ID is missing")
    return packed


def _contents(frames: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    _, offsets, data = frames.buffers()
    if not len(frames) or offsets is None:
        return np.empty(0, np.uint8), np.zeros(1, np.int32)
    # A stranger's buffer may be longer, by any number of bytes.
    places = np.frombuffer(offsets, np.int32, frames.offset + len(frames) + 1)[frames.offset :]
    return np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8), places
