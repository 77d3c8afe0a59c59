"""Big-endian numbers, read from bytes that are there."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

from decoders.compilation import inlined


def _loading(number: Any) -> Any:
    """Make a reader of numbers that takes all bytes at once: compilers see that in a loop only at times."""

    def load(_typing: Any, data: Any, index: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array = context.make_array(signature.args[0])(context, builder, arguments[0])
            kind = ir.IntType(number.bitwidth)
            place = builder.gep(array.data, [arguments[1]])
            return builder.bswap(builder.load(builder.bitcast(place, kind.as_pointer()), align=1))

        return number(data, index), generate

    return intrinsic(load)


_load_int16 = _loading(types.int16)
_load_int32 = _loading(types.int32)
_load_int64 = _loading(types.int64)


@inlined
def wide(number: Any) -> Any:
    return np.int64(number)


@inlined
def int16(data: Any, position: int) -> Any:
    return _load_int16(data, wide(position))


@inlined
def int32(data: Any, position: int) -> Any:
    return _load_int32(data, wide(position))


@inlined
def int64(data: Any, position: int) -> Any:
    return _load_int64(data, wide(position))


@inlined
def is_zero(data: Any, position: int) -> Any:
    """Whether all 16 bytes of a uuid are zero."""
    return int64(data, position) | int64(data, position + 8) == 0
