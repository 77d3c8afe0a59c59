"""What a stream of bytes consists of, in order: chunks that were captured, and gaps.

Each layer of a connection turns those of the layer below into its own: TCP's into those of TLS records, these
into frames.
"""

from __future__ import annotations

from typing import NamedTuple

PIECE_COST = 256
"""Bytes of memory that a held chunk takes besides its payload, roughly."""


class Chunk(NamedTuple):
    """Bytes of the stream in order, all from one segment.

    `starts_segment` is true if they begin where the segment's payload begins, as frames often do.
    `acknowledgment` is the 32-bit number in the segment's header, `behind` the offset in the other direction
    that it stands for. `missing` is the number of bytes after it that the snap length cut off. Bytes that
    were encrypted have a `record_end`: their receiver can read them once it has the stream up to that offset.
    A chunk that `is_disputed` was also captured with other bytes.
    """

    offset: int
    payload: bytes
    captured_at: int
    position: int
    acknowledgment: int
    starts_segment: bool
    behind: int = 0
    missing: int = 0
    record_end: int | None = None
    is_disputed: bool = False

    @property
    def end(self) -> int:
        """The offset behind the last byte."""
        return self.offset + len(self.payload)

    def readable_from(self, size: int) -> int:
        """Return the offset up to which a receiver must have the stream to read the first `size` bytes."""
        return self.offset + size if self.record_end is None else self.record_end

    def part(self, start: int, end: int) -> Chunk:
        """Return the bytes between two offsets of the stream that are within this chunk."""
        if start == self.offset and end == self.end:
            return self
        payload = self.payload[start - self.offset : end - self.offset]
        starts_segment = self.starts_segment and start == self.offset
        missing = self.missing if end == self.end else 0
        return self._replace(offset=start, payload=payload, starts_segment=starts_segment, missing=missing)


class Gap(NamedTuple):
    """Bytes of the stream that were not captured.

    `captured_at` and `position` are those of the packet that shows that they are missing.
    """

    offset: int
    size: int
    captured_at: int
    position: int


class UnsizedGap(NamedTuple):
    """A gap of unknown size: plaintext that cannot be decrypted, or a stream that goes on in a forged gap.

    `captured_at` and `position` are those of the packet that shows it.
    """

    captured_at: int
    position: int


StreamEvent = Chunk | Gap | UnsizedGap
