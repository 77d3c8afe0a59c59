"""Arrow arrays over numpy's memory, without a copy but where contents are gathered."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from decoders.codec.columnar.gathering import gather, write_list_ends
from decoders.codec.columnar.projection import Sort

_Bytes = npt.NDArray[np.uint8]
_Integers = npt.NDArray[np.int64]

Bits = _Bytes | None
"""A bit an element, the lowest of a byte first, 0 where the element is null; None if none is."""


def bits(flags: npt.NDArray[Any]) -> _Bytes:
    """Pack flags into bits, those of each row of a matrix into a row."""
    return np.packbits(flags, axis=-1, bitorder="little")


def numbers(kind: pa.DataType, values: npt.NDArray[Any], valid: Bits) -> pa.Array:
    """Make an array of a type over values that are laid out as it lays them out."""
    buffers = [None if valid is None else pa.py_buffer(valid), pa.py_buffer(values)]
    return pa.Array.from_buffers(kind, len(values), buffers)


def booleans(values: _Bytes, count: int, valid: Bits) -> pa.Array:
    """Make an array of flags that are packed into bits."""
    buffers = [None if valid is None else pa.py_buffer(valid), pa.py_buffer(values)]
    return pa.Array.from_buffers(pa.bool_(), count, buffers)


def values(sort: Sort, values: _Integers, valid: Bits) -> pa.Array:
    """Make an array of flags, integers or floats, all of which are given as 64 bits."""
    if sort is Sort.BOOLEAN:
        return booleans(bits(values != 0), len(values), valid)
    return numbers(pa.float64() if sort is Sort.FLOAT else pa.int64(), values, valid)


def contents(offsets: _Integers, gathered: _Bytes, valid: Bits) -> pa.Array:
    """Make a large_binary array of contents that stand one behind the other."""
    buffers = [None if valid is None else pa.py_buffer(valid), pa.py_buffer(offsets), pa.py_buffer(gathered)]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def places(data: _Bytes, begins: _Integers, lengths: _Integers, valid: Bits) -> pa.Array:
    """Make a large_binary array of places in the data; no length is negative."""
    offsets = np.empty(len(begins) + 1, np.int64)
    gathered = np.empty(int(lengths.sum()), np.uint8)
    gather(data, begins, lengths, offsets, gathered)
    return contents(offsets, gathered, valid)


def uuids(data: _Bytes, begins: _Integers, valid: Bits) -> pa.Array:
    """Make an array of 16 bytes each; they are zero where they begin nowhere (-1)."""
    if valid is not None and not valid.any():
        return _no_uuids(len(begins))
    (there,) = np.nonzero(begins >= 0)
    content = np.zeros((len(begins), 16), np.uint8)
    content[there] = data[begins[there, np.newaxis] + np.arange(16)]
    return numbers(pa.binary(16), content, valid)


@functools.lru_cache(maxsize=8)
def _no_uuids(count: int) -> pa.Array:
    # Most batches have none, and all of one size can share their zeros.
    return pa.nulls(count, pa.binary(16))


def texts(known: Iterable[str]) -> pa.Array:
    """Make an array of strings."""
    # pyarrow.array would import pandas, only to ask whether these are one of its series.
    encoded = [text.encode() for text in known]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(encoded), pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded)))


def names(places: npt.NDArray[Any], known: pa.Array, valid: Bits) -> pa.Array:
    """Make a dictionary of strings of the places that they have in it."""
    kind = pa.dictionary(pa.from_numpy_dtype(places.dtype), pa.string())
    buffers = [None if valid is None else pa.py_buffer(valid), pa.py_buffer(places)]
    return pa.DictionaryArray.from_buffers(kind, len(places), buffers, known)


def lists(values: pa.Array, owners: _Integers, count: int, valid: npt.NDArray[np.bool_] | None) -> pa.Array:
    """Make `count` lists of values, each of which is owned by the list of a number, in their order."""
    offsets = np.zeros(count + 1, np.int32)
    if len(owners):
        write_list_ends(np.ascontiguousarray(owners), offsets)
    buffers = [None if valid is None else pa.py_buffer(bits(valid)), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(pa.list_(values.type), count, buffers, children=[values])
