"""Contents that stand anywhere in the data, gathered one after the other; and where lists end."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import types

from decoders.compilation import compiled

_BYTES: Final = types.Array(types.uint8, 1, "C", readonly=True)
_PLACES: Final = types.Array(types.int64, 1, "C", readonly=True)


@compiled(types.void(_BYTES, _PLACES, _PLACES, types.int64[::1], types.uint8[::1]))
def gather(data: Any, begins: Any, lengths: Any, offsets: Any, gathered: Any) -> None:
    """Copy contents one after the other, those with a negative length left out; `offsets` say where to."""
    target = np.uint64(0)
    offsets[0] = 0
    for number in range(len(begins)):
        source = np.uint64(begins[number])
        for _ in range(lengths[number]):
            gathered[target] = data[source]
            source += np.uint64(1)
            target += np.uint64(1)
        offsets[np.uint64(number) + np.uint64(1)] = np.int64(target)


@compiled(types.void(_PLACES, types.int32[::1]))
def write_list_ends(owners: Any, offsets: Any) -> None:
    """Write where lists begin whose values stand in the order of the lists that own them."""
    value = np.int64(0)
    for number in range(len(offsets)):
        while value < len(owners) and owners[value] < number:
            value += 1
        offsets[np.uint64(number)] = value
