"""Compiled: memory access by LLVM's own instructions: big-endian numbers, and prefetching."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

from decoders.compilation import inlined

FRAMES_AHEAD: Final = 16
"""How many frames ahead to prefetch. Frames differ in length, so the processor does not foresee the next one:
without prefetching, the columnar reader takes 20 % longer."""
CACHE_LINE: Final = 64
"""In bytes, on most processors."""

_FLAG: Final = ir.IntType(32)
_READ, _KEEP, _DATA = _FLAG(0), _FLAG(3), _FLAG(1)


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(_typing: Any, data: Any, index: Any) -> Any:
    """Ask for the cache line of an element and do not wait for it. The index may be out of bounds."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.gep(array.data, [arguments[1]])
        kind = ir.FunctionType(ir.VoidType(), [place.type, _FLAG, _FLAG, _FLAG])
        function = builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind)
        builder.call(function, [place, _READ, _KEEP, _DATA])
        return context.get_dummy_value()

    return types.void(data, index), generate


def _loading(number: Any) -> Any:
    """Make a function that loads a big-endian number at once: LLVM does not always see that in a loop."""

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
    """Convert to int64."""
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
    """Return whether all 16 bytes of a UUID are zero."""
    return int64(data, position) | int64(data, position + 8) == 0
