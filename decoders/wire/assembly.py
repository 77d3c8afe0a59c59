"""Assembles one frame of the Kafka protocol: a signed 32-bit length prefix, then the frame's bytes."""

from __future__ import annotations

from typing import NamedTuple

from decoders.wire.stream import Chunk

PREFIX = 4
"""Bytes of the length prefix."""
MAX_FRAME = 100 * 1024 * 1024
"""Bytes of the largest request that a broker accepts by default (`socket.request.max.bytes`)."""
SHORTEST_FRAME = 4
"""Bytes of a correlation ID. Only a raw SASL token may be shorter."""


class InvalidSize(NamedTuple):
    """A length prefix that no frame can have.

    `captured_at` and `position` are those of the segment with its first byte.
    """

    size: int
    captured_at: int
    position: int


class Frame(NamedTuple):
    """A frame without its length prefix.

    `payload` ends before the first byte that was not captured; `true_length` counts all bytes.
    `captured_at`, `position` and `acknowledgment` are those of the segment with the first byte of the
    length prefix. `completed_at` is the capture time of the segment with the last byte, `end` the offset in
    the stream after it, or after its TLS record. Times are nanoseconds since the epoch.
    """

    payload: bytes
    true_length: int
    captured_at: int
    position: int
    acknowledgment: int
    completed_at: int
    end: int

    def invalid_size(self) -> InvalidSize:
        """Return the frame's length as an invalid one: it is shorter than a correlation ID."""
        return InvalidSize(self.true_length, self.captured_at, self.position)


class AssemblySnapshot(NamedTuple):
    """The state of an assembly.

    `captured` holds bytes of the length prefix while `size` is None, then bytes of the frame, of which
    `passed` have passed. The other fields are those of the segment with the first byte of the prefix.
    """

    size: int | None
    captured: bytes
    passed: int
    captured_at: int
    position: int
    acknowledgment: int


class Assembly:
    """Assembles one frame. `size` is None until the length prefix is complete."""

    def __init__(self, first: Chunk, max_frame: int) -> None:
        """Begin with the chunk that holds the prefix's first byte. Sizes above `max_frame` are invalid."""
        self.size: int | None = None
        self._max_frame = max_frame
        self._first = first
        self._bytes = bytearray()
        self._passed = 0

    @classmethod
    def of(cls, state: AssemblySnapshot, max_frame: int) -> Assembly:
        """Restore an assembly from a snapshot."""
        assembly = cls(Chunk(0, b"", *state[3:], starts_segment=False), max_frame)
        assembly.size, assembly._passed = state.size, state.passed
        assembly._bytes += state.captured
        return assembly

    def snapshot(self) -> AssemblySnapshot:
        """Return the state of the assembly."""
        first = self._first
        place = (first.captured_at, first.position, first.acknowledgment)
        return AssemblySnapshot(self.size, bytes(self._bytes), self._passed, *place)

    @property
    def wanted(self) -> int:
        """The number of bytes that are missing from the prefix, or else from the frame."""
        return PREFIX - len(self._bytes) if self.size is None else self.size - self._passed

    @property
    def held(self) -> int:
        """The number of captured bytes, including those of the prefix."""
        return len(self._bytes) + (PREFIX if self.size is not None else 0)

    @property
    def is_impossible(self) -> bool:
        """Whether no frame can have this size."""
        return self.size is not None and not 0 <= self.size <= self._max_frame

    @property
    def is_complete(self) -> bool:
        """Whether every byte of the frame has passed, captured or not."""
        return self._passed == self.size

    def add(self, piece: bytes) -> bool:
        """Add at most `wanted` bytes. Returns False if they follow a hole; such bytes are not kept."""
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

    def skip(self, size: int) -> None:
        """Leave a hole of at most `wanted` bytes in the frame."""
        self._passed += size

    def invalid_size(self) -> InvalidSize:
        """Return the size, which is impossible, and where it was captured."""
        return InvalidSize(self.size or 0, self._first.captured_at, self._first.position)

    def frame(self, end: int, completed_at: int) -> Frame:
        """Return the complete frame, which ends at an offset of the stream."""
        return Frame(
            payload=bytes(self._bytes),
            true_length=self.size or 0,
            captured_at=self._first.captured_at,
            position=self._first.position,
            acknowledgment=self._first.acknowledgment,
            completed_at=completed_at,
            end=end,
        )
