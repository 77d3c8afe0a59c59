"""The stored values of one bucket of identities between steps, without Spark."""

from __future__ import annotations

from streaming.state.identities import PackedIdentities, StoredIdentities, unpack_identities


class IdentityStore:
    """The index and the pages of a bucket. `reads` holds the numbers of the pages that were read."""

    def __init__(self) -> None:
        self.index: bytes | None = None
        self.pages: dict[int, bytes] = {}
        self.reads: list[int] = []

    def save(self, identities: StoredIdentities) -> PackedIdentities:
        """Store a bucket: the index, and the pages that change."""
        packed = identities.packed()
        self.index = packed.index
        self.pages |= packed.written
        for number in packed.removed:
            del self.pages[number]
        assert packed.size == len(packed.index) + sum(map(len, self.pages.values()))
        return packed

    def load(self) -> StoredIdentities:
        """Return the stored bucket."""
        return unpack_identities(self.index, self._read)

    def _read(self, number: int) -> bytes | None:
        self.reads.append(number)
        return self.pages.get(number)
