"""Compiled: 32-bit sequence numbers, which wrap around."""

from __future__ import annotations

from typing import Any

from decoders.compilation import inlined
from decoders.wire.stream import SEQUENCE_SPACE


@inlined
def distance(number: Any, origin: Any) -> Any:
    """Return how far a 32-bit sequence number is ahead of another; negative if it is behind."""
    ahead = (number - origin) & (SEQUENCE_SPACE - 1)
    return ahead - SEQUENCE_SPACE if ahead >= SEQUENCE_SPACE // 2 else ahead
