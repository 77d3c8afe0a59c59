"""Values in Spark's state store: the bytes stored for the current key, one value or numbered ones."""

from __future__ import annotations

from pyspark.sql.streaming import StatefulProcessorHandle


class StoredBytes:
    """Skips the write if the bytes are those read last, since each write is a round trip to the JVM."""

    def __init__(self, handle: StatefulProcessorHandle, name: str) -> None:
        self._state = handle.getValueState(name, "state binary")
        self._read: bytes | None = None

    def read(self) -> bytes | None:
        """Return the stored bytes, None if there are none."""
        stored = self._state.get()
        self._read = bytes(stored[0]) if stored else None
        return self._read

    def write(self, packed: bytes) -> None:
        """Store bytes, unless they are those that `read` returned last."""
        if packed != self._read:
            self._state.update((packed,))

    def clear(self) -> None:
        """Remove the stored bytes."""
        self._state.clear()


class StoredPages:
    """Bytes by number. Only the numbers that are asked for are read."""

    def __init__(self, handle: StatefulProcessorHandle, name: str) -> None:
        self._state = handle.getMapState(name, "number int", "state binary")

    def read(self, number: int) -> bytes | None:
        """Return the bytes under a number, None if there are none."""
        stored = self._state.getValue((number,))
        return bytes(stored[0]) if stored else None

    def write(self, number: int, packed: bytes) -> None:
        """Store bytes under a number."""
        self._state.updateValue((number,), (packed,))

    def remove(self, number: int) -> None:
        """Remove the bytes under a number."""
        self._state.removeKey((number,))

    def clear(self) -> None:
        """Remove all."""
        self._state.clear()
