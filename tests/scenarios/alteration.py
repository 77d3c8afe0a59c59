"""A passage that alters the responses of a broker on their way to the client."""

from __future__ import annotations

import struct
from collections.abc import Callable

from decoders.frame.record import Direction

Alter = Callable[[bytes], bytes]

PREFIX = 4
"""Bytes of a frame's length."""


class Altered:
    """The passage of one connection. Each chunk is one response: requests are sent one at a time."""

    def __init__(self, alter: Alter) -> None:
        self._alter = alter

    def process(self, direction: Direction, chunk: bytes) -> bytes:
        """Alter a response."""
        if direction is Direction.TO_BROKER:
            return chunk
        frame = self._alter(chunk[PREFIX:])
        return struct.pack(">i", len(frame)) + frame

    def end(self, direction: Direction) -> bytes:
        """Nothing is held back."""
        return b""


def with_error(offset: int, before: int, after: int) -> Alter:
    """Replace an error code at a place of the frame, where it is the one that is expected."""

    def alter(frame: bytes) -> bytes:
        if frame[offset : offset + 2] != before.to_bytes(2):
            return frame
        return frame[:offset] + after.to_bytes(2) + frame[offset + 2 :]

    return alter


def replacing(before: bytes, after: bytes) -> Alter:
    """Replace bytes."""
    return lambda frame: frame.replace(before, after)
