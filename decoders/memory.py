"""Memory: big-endian numbers, prefetching and copies of bytes, compiled; arrays that grow; rows of int64.

Loads, prefetching and `copy_bytes` are LLVM's own instructions, which numba does not offer to Python code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core.cgutils import raw_memcpy
from numba.extending import intrinsic
from numpy.typing import NDArray

from decoders.compilation import compiled, inlined

FRAMES_AHEAD: Final = 16
"""How many frames ahead to prefetch. Frames differ in length, so the processor cannot predict where the next
one is: without prefetching, the columnar reader takes 20 % longer."""
CACHE_LINE: Final = 64
"""In bytes, on most processors."""

_FLAG: Final = ir.IntType(32)
_READ, _KEEP, _DATA = _FLAG(0), _FLAG(3), _FLAG(1)


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(_typing: Any, data: Any, index: Any) -> Any:
    """Request the cache line of an element without waiting for it. The index may be out of bounds."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.gep(array.data, [arguments[1]])
        kind = ir.FunctionType(ir.VoidType(), [place.type, _FLAG, _FLAG, _FLAG])
        function = builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind)
        builder.call(function, [place, _READ, _KEEP, _DATA])
        return context.get_dummy_value()

    return types.void(data, index), generate


@intrinsic  # type: ignore[untyped-decorator]
def copy_bytes(_typing: Any, source: Any, target: Any) -> Any:
    """Copy an array of bytes to one of the same size that does not overlap it. Both are contiguous.

    A slice assignment checks for overlap first, and a loop copies byte by byte where LLVM sees no more.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        of_source, of_target = (context.make_array(array) for array in signature.args)
        source, target = (
            of_source(context, builder, arguments[0]),
            of_target(context, builder, arguments[1]),
        )
        raw_memcpy(builder, target.data, source.data, source.nitems, 1)
        return context.get_dummy_value()

    return types.void(source, target), generate


def _loading(number: Any) -> Any:
    """Make a function that loads a big-endian number in one instruction: LLVM misses that in some loops."""

    def load(_typing: Any, data: Any, _index: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array = context.make_array(signature.args[0])(context, builder, arguments[0])
            kind = ir.IntType(number.bitwidth)
            place = builder.gep(array.data, [arguments[1]])
            return builder.bswap(builder.load(builder.bitcast(place, kind.as_pointer()), align=1))

        # An index of another type is converted.
        return number(data, types.int64), generate

    return intrinsic(load)


int16 = _loading(types.int16)
int32 = _loading(types.int32)
int64 = _loading(types.int64)


@inlined
def wide(number: Any) -> Any:
    """Convert to int64."""
    return np.int64(number)


@inlined
def is_zero(data: Any, position: int) -> Any:
    """Return whether all 16 bytes of a UUID are zero."""
    return int64(data, position) | int64(data, position + 8) == 0


def gathered(
    data: NDArray[np.uint8], begins: NDArray[np.int64], lengths: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Copy `data[begins[i] : begins[i] + lengths[i]]` for each i, one behind the other.

    Returns the copies, and the offset of each in them (int64), with the end as the last.
    """
    offsets = bounds_of(lengths)
    target = np.empty(int(offsets[-1]), np.uint8)
    _gather(data, begins, offsets, target)
    return target, offsets


def bounds_of(lengths: NDArray[np.int64] | Sequence[int]) -> NDArray[np.int64]:
    """Return the offset of each of some consecutive pieces (int64), with the end as the last."""
    bounds = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=bounds[1:])
    return bounds


def grown(array: NDArray[Any], size: int, fill: int = 0) -> NDArray[Any]:
    """Return an array of at least `size` rows that begins with those of this one: itself if it has so many.

    Else its rows are doubled until they are enough. Copying bytes is ten times as fast as copying rows of
    several fields, each of which numpy copies.
    """
    if size <= len(array):
        return array
    rows = max(1, len(array))
    while rows < size:
        rows *= 2
    larger = np.zeros((rows, *array.shape[1:]), array.dtype)
    if fill:
        larger[len(array) :] = fill
    larger.reshape(-1).view(np.uint8)[: array.nbytes] = array.reshape(-1).view(np.uint8)
    return larger


def int64_fields(names: str) -> np.dtype[np.void]:
    """Return the dtype of rows that have an int64 for each of these names."""
    return np.dtype([(name, np.int64) for name in names.split()])


@compiled(None)
def _gather(data: Any, begins: Any, offsets: Any, target: Any) -> None:
    for number in range(len(begins)):
        begin, end = offsets[number], offsets[number + 1]
        copy_bytes(data[begins[number] : begins[number] + end - begin], target[begin:end])
