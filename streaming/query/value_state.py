"""The bytes that Spark's state store holds for one key."""

from __future__ import annotations

from pyspark.sql.streaming import StatefulProcessorHandle


class StoredBytes:
    """Read once for each key, and written only where they have changed: each of both is a round trip."""

    def __init__(self, handle: StatefulProcessorHandle, name: str) -> None:
        self._state = handle.getValueState(name, "state binary")
        self._read: bytes | None = None

    def read(self) -> bytes | None:
        """Give what is stored, None if nothing is."""
        stored = self._state.get()
        self._read = bytes(stored[0]) if stored else None
        return self._read

    def write(self, packed: bytes) -> None:
        """Store this in place of what was read."""
        if packed != self._read:
            self._state.update((packed,))

    def clear(self) -> None:
        """Store nothing any more."""
        self._state.clear()
