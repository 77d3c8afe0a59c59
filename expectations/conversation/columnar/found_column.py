"""The values of a body field that the columnar reader has found, for some of the frames."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoders.codec.columnar.frames import DecodedFrames
from decoders.codec.columnar.projection import NULL_LENGTH
from expectations.conversation.bounded_text import bounded


class FoundColumn:
    """The values of one column for selected frames, by their index among the selected."""

    def __init__(self, decoded: DecodedFrames, column: int, numbers: NDArray[np.int64]) -> None:
        rows = decoded.found[decoded.found[:, 1] == column]
        # Rows are in the order of the frames. A frame without a row has a null in this column.
        places = np.searchsorted(rows[:, 0], numbers)
        rows = np.append(rows, np.full((1, rows.shape[1]), -1, np.int64), axis=0)[places]
        self._values: list[int] = rows[:, 2].tolist()
        self._lengths: list[int] = rows[:, 3].tolist()
        self._is_there: list[bool] = (rows[:, 0] == numbers).tolist()
        self._data: Any = decoded.frames.data.data

    def is_there(self, at: int) -> bool:
        """Return whether a frame has a value."""
        return self._is_there[at]

    def number(self, at: int) -> int | None:
        """Return a number, None for a missing one."""
        return self._values[at] if self._is_there[at] else None

    def length(self, at: int) -> int | None:
        """Return the length of an array, None for a null."""
        number = self.number(at)
        return None if number == NULL_LENGTH else number

    def text(self, at: int) -> str | None:
        """Return a text, which is valid UTF-8, as far as facts keep it; None for a missing one."""
        if not self._is_there[at]:
            return None
        begin = self._values[at]
        return bounded(str(self._data[begin : begin + self._lengths[at]], "utf-8"))
