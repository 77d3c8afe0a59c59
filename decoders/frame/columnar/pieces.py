"""Slices of an array, copied one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoders.compilation import compiled


def gathered(
    data: NDArray[np.uint8], begins: NDArray[np.int64], lengths: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Copy `data[begins[i] : begins[i] + lengths[i]]` for each i.

    Returns the copies, and the offset of each in them (int64), with the end as the last.
    """
    offsets = bounds_of(lengths)
    target = np.empty(int(offsets[-1]), np.uint8)
    _copy(data, begins, offsets, target)
    return target, offsets


def bounds_of(lengths: NDArray[np.int64] | Sequence[int]) -> NDArray[np.int64]:
    """Return where each of some pieces begins if one follows the other (int64), with the end as the last."""
    bounds = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=bounds[1:])
    return bounds


@compiled(None)
def _copy(data: Any, begins: Any, offsets: Any, target: Any) -> None:
    for number in range(len(begins)):
        begin = offsets[number]
        for at in range(offsets[number + 1] - begin):
            target[begin + at] = data[begins[number] + at]
