"""The wanted columns that have one value for each frame, as Arrow arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from decoders.codec.columnar import arrow, memory
from decoders.codec.columnar.projection import Column, Sort
from decoders.codec.columnar.spreading import gather_found, spread

_Integers = npt.NDArray[np.int64]


class Singles:
    """All of them, made of the rows of `found`: numbers and places as values, contents behind each other."""

    def __init__(
        self,
        columns: Sequence[Column],
        found: _Integers,
        contents: npt.NDArray[np.uint8],
        data: npt.NDArray[np.uint8],
        count: int,
    ):
        singles = [at for at, column in enumerate(columns) if not column.is_list]
        texts = [at for at in singles if columns[at].sort is Sort.BYTES]
        numbers = [at for at in singles if columns[at].sort is not Sort.BYTES]
        self._rows = np.full(len(columns), -1, np.int32)
        self._rows[numbers + texts] = np.arange(len(singles))
        self._columns = columns
        self._data = data
        self._flags = memory.zeros((len(singles), count), np.uint8)
        self._values = memory.zeros((len(numbers), count), np.int64)
        self._offsets = memory.zeros((len(texts), count + 1), np.int64)
        spread(found, self._rows, self._flags, self._values, self._offsets)
        self._contents = memory.empty(int(self._offsets[-1, -1]) if texts else 0, np.uint8)
        gather_found(found, self._rows, len(numbers), self._offsets, contents, self._contents)
        self._bits = arrow.bits(self._flags)

    def array(self, at: int) -> pa.Array:
        """Give the column of a number."""
        row, sort = self._rows[at], self._columns[at].sort
        valid = self._bits[row]
        if sort is Sort.BYTES:
            return arrow.contents(self._offsets[row - len(self._values)], self._contents, valid)
        if sort is Sort.UUID:
            begins = np.where(self._flags[row] > 0, self._values[row], -1)
            return arrow.uuids(self._data, begins, valid)
        return arrow.values(sort, self._values[row], valid)
