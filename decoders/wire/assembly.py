"""A frame of the Kafka protocol while its bytes come in: a signed 32-bit length, then so many bytes."""

from __future__ import annotations

from typing import NamedTuple

from decoders.wire.stream import Chunk

PREFIX = 4
"""Bytes of the length before every frame."""
MAX_FRAME = 100 * 1024 * 1024
"""The longest request that a broker takes if nobody set its `socket.request.max.bytes`."""


SHORTEST_FRAME = 4
"""A correlation ID: only a raw SASL token may be shorter."""


class InvalidSize(NamedTuple):
    """A length that no frame has, and the segment in which its prefix began."""

    size: int
    captured_at: int
    position: int


class Frame(NamedTuple):
    """A frame without its length prefix.

    `payload` ends at the first byte that was not captured; `true_length` counts them all.
    `captured_at`, `position` and `acknowledgment` are those of the segment with the first byte of the
    length prefix, `completed_at` is of the one with the last byte, and `end` the stream's offset there.
    """

    payload: bytes
    true_length: int
    captured_at: int
    position: int
    acknowledgment: int
    completed_at: int
    end: int

    def invalid_size(self) -> InvalidSize:
        """Tell of a frame that is too short to be one."""
        return InvalidSize(self.true_length, self.captured_at, self.position)


class AssemblyState(NamedTuple):
    """All that an assembly holds.

    `captured` are bytes of the length prefix until `size` is known, and then of the frame, of which `passed`
    have passed. The rest is of the segment with the first byte of the prefix.
    """

    size: int | None
    captured: bytes
    passed: int
    captured_at: int
    position: int
    acknowledgment: int


class Assembly:
    """Puts one frame together. `size` is None until the length prefix is whole."""

    def __init__(self, first: Chunk, max_frame: int) -> None:
        """Begin with the chunk that holds the first byte of the prefix; a longer length is none."""
        self.size: int | None = None
        self._max_frame = max_frame
        self._first = first
        self._bytes = bytearray()
        self._passed = 0

    @classmethod
    def of(cls, state: AssemblyState, max_frame: int) -> Assembly:
        """Go on from a snapshot."""
        assembly = cls(Chunk(0, b"", *state[3:], starts_segment=False), max_frame)
        assembly.size, assembly._passed = state.size, state.passed
        assembly._bytes += state.captured
        return assembly

    def snapshot(self) -> AssemblyState:
        """Give all that it holds."""
        first = self._first
        place = (first.captured_at, first.position, first.acknowledgment)
        return AssemblyState(self.size, bytes(self._bytes), self._passed, *place)

    @property
    def wanted(self) -> int:
        """How many bytes the prefix, or then the frame, still lacks."""
        return PREFIX - len(self._bytes) if self.size is None else self.size - self._passed

    @property
    def held(self) -> int:
        """How many captured bytes are in it, those of the prefix included."""
        return len(self._bytes) + (PREFIX if self.size is not None else 0)

    @property
    def is_impossible(self) -> bool:
        """Whether the length is one that no frame has."""
        return self.size is not None and not 0 <= self.size <= self._max_frame

    @property
    def is_whole(self) -> bool:
        """Whether every byte has passed, captured or not."""
        return self._passed == self.size

    def add(self, piece: bytes) -> bool:
        """Add at most `wanted` bytes. Gives False for bytes behind a hole, which are not kept."""
        if self.size is None:
            self._bytes += piece
            if len(self._bytes) == PREFIX:
                self.size = int.from_bytes(self._bytes, signed=True)
                self._bytes.clear()
            return True
        has_hole = len(self._bytes) < self._passed
        self._passed += len(piece)
        if not has_hole:
            self._bytes += piece
        return not has_hole

    def pass_over(self, size: int) -> None:
        """Leave a hole of at most `wanted` bytes in the frame."""
        self._passed += size

    def invalid_size(self) -> InvalidSize:
        """Tell of a length that is impossible."""
        return InvalidSize(self.size or 0, self._first.captured_at, self._first.position)

    def frame(self, end: int, completed_at: int) -> Frame:
        """Give the frame, which ends at an offset of the stream."""
        return Frame(
            payload=bytes(self._bytes),
            true_length=self.size or 0,
            captured_at=self._first.captured_at,
            position=self._first.position,
            acknowledgment=self._first.acknowledgment,
            completed_at=completed_at,
            end=end,
        )
