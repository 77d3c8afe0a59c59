"""Maps offsets in an encrypted stream to its plaintext, for what an acknowledgment acknowledges."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

MAX_RECORDS: Final = 4096
"""Records of one direction that are remembered while their receiver has not acknowledged them."""


class PlaintextOffsets:
    """The ends of decrypted records of one direction, in the stream and in the plaintext.

    `end` is the offset behind the plaintext that was decrypted so far.
    """

    def __init__(self) -> None:
        self.end = 0
        self._ends: list[int] = []
        self._plaintext_ends: list[int] = []

    def add(self, end: int, size: int) -> None:
        """Add a record, which ends at an offset of the stream, and the size of its plaintext."""
        self.end += size
        self._ends.append(end)
        self._plaintext_ends.append(self.end)
        if len(self._ends) > MAX_RECORDS:
            self._forget(MAX_RECORDS // 2)

    def of(self, offset: int) -> int:
        """Return how much plaintext is in whole records before an offset; 0 if that was forgotten."""
        index = bisect_right(self._ends, offset)
        return self._plaintext_ends[index - 1] if index else 0

    def forget_before(self, offset: int) -> None:
        """Forget all that is needed for earlier offsets only."""
        self._forget(bisect_right(self._ends, offset) - 1)

    def _forget(self, count: int) -> None:
        if count > 0:
            del self._ends[:count], self._plaintext_ends[:count]
