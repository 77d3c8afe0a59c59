"""Whether bytes are UTF-8, as Python takes it."""

from __future__ import annotations

from typing import Any

import numpy as np

from decoders.codec.columnar.numbers import int64
from decoders.compilation import inlined, outlined


@inlined
def is_ascii(data: Any, begin: int, end: int) -> Any:
    """Look at eight bytes at a time; the last ones, if fewer, with those that follow them in the data."""
    at, seen = begin, np.uint64(0)
    while end - at >= 8:
        seen |= np.uint64(int64(data, at))
        at += 8
    if at < end and at + 8 <= len(data):
        seen |= np.uint64(int64(data, at)) >> np.uint64(8 * (at + 8 - end))
    else:
        while at < end:
            seen |= np.uint64(data[np.uint64(at)])
            at += 1
    return seen & np.uint64(0x8080808080808080) == 0


@outlined
def is_utf8(data: Any, begin: int, end: int) -> bool:
    """Whether bytes are UTF-8 as Python takes it: no surrogates, nothing longer than need be."""
    at = begin
    while at < end:
        lead = data[np.uint64(at)]
        at += 1
        if lead < 0x80:
            continue
        more = 1 + (lead >= 0xE0) + (lead >= 0xF0)
        if lead < 0xC2 or lead > 0xF4 or end - at < more:
            return False
        second = data[np.uint64(at)]
        lowest = 0xA0 if lead == 0xE0 else 0x90 if lead == 0xF0 else 0x80
        highest = 0x9F if lead == 0xED else 0x8F if lead == 0xF4 else 0xBF
        if second < lowest or second > highest:
            return False
        for offset in range(1, more):
            if data[np.uint64(at + offset)] & 0xC0 != 0x80:
                return False
        at += more
    return True
