"""Compiled: bytes are copied."""

from __future__ import annotations

from typing import Any

from decoders.compilation import inlined


@inlined
def copy_bytes(source: Any, target: Any) -> None:
    """Copy bytes to a place of the same size that does not overlap theirs."""
    # A slice assignment checks for overlap first, and is slower.
    for index in range(len(source)):
        target[index] = source[index]
