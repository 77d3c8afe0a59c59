"""Asks the processor for the bytes of frames that are read soon: without it, decoding takes 20 % longer.

Frames are too far apart, and too different in length, for the processor to foresee the next one.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

AHEAD: Final = 16
"""How many frames ahead is best."""
CACHE_LINE: Final = 64
"""In bytes, on most processors."""

_FLAG: Final = ir.IntType(32)
_READ, _KEEP, _DATA = _FLAG(0), _FLAG(3), _FLAG(1)


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(_typing: Any, data: Any, index: Any) -> Any:
    """Ask for the cache line of an element of an array and go on; one beyond its end does no harm."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.gep(array.data, [arguments[1]])
        kind = ir.FunctionType(ir.VoidType(), [place.type, _FLAG, _FLAG, _FLAG])
        function = builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind)
        builder.call(function, [place, _READ, _KEEP, _DATA])
        return context.get_dummy_value()

    return types.void(data, index), generate
