"""Big-endian numbers, read from bytes that are there."""

from __future__ import annotations

from typing import Any

import numpy as np

from decoders.compilation import inlined


@inlined
def wide(number: Any) -> Any:
    return np.int64(number)


@inlined
def big_endian(data: Any, position: int, size: int) -> Any:
    """Read a big-endian number without a sign."""
    at = np.uint64(position)
    value = np.uint64(0)
    for _ in range(size):
        value = (value << np.uint64(8)) | np.uint64(data[at])
        at += np.uint64(1)
    return value


@inlined
def int16(data: Any, position: int) -> Any:
    return np.int16(big_endian(data, position, 2))


@inlined
def int32(data: Any, position: int) -> Any:
    return np.int32(big_endian(data, position, 4))


@inlined
def is_zero(data: Any, position: int) -> Any:
    return big_endian(data, position, 8) == 0 and big_endian(data, position + 8, 8) == 0
