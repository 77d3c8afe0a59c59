"""The IDs of a bucket's connections, one after the other, and where each is.

A search reads all IDs, so it is dear where many connections are stored, and cheaper than noting all places
where few are looked for. The contract: `find` returns what a search does, however often it was asked
(`tests/streaming/state/test_stored_ids.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from decoders.frame.columnar.block import ID_BYTES
from streaming.state.connection_layout import NOWHERE

SEARCHES: Final = 16
"""Searches after which all places are noted, which costs as much as some twenty of them."""


class StoredIds:
    """IDs of ID_BYTES each. `joined` are all of them."""

    def __init__(self, joined: bytes) -> None:
        self.joined = joined
        self._searches = 0
        self._noted: dict[bytes, int] | None = None

    def find(self, connection: bytes) -> int:
        """Return the first place of an ID, NOWHERE if it is not there."""
        if self._noted is None:
            if self._searches < SEARCHES:
                self._searches += 1
                return self._search(connection)
            ids = np.frombuffer(self.joined, f"V{ID_BYTES}").tolist()
            self._noted = {ids[place]: place for place in reversed(range(len(ids)))}
        return self._noted.get(connection, NOWHERE)

    def append(self, connections: Sequence[bytes]) -> None:
        """Add IDs at the end."""
        if self._noted is not None:
            for place, connection in enumerate(connections, start=len(self.joined) // ID_BYTES):
                self._noted.setdefault(connection, place)
        self.joined += b"".join(connections)

    def at(self, place: int) -> bytes:
        """Return the ID at a place."""
        return self.joined[place * ID_BYTES : (place + 1) * ID_BYTES]

    def _search(self, connection: bytes) -> int:
        at = self.joined.find(connection)
        while at % ID_BYTES and at != NOWHERE:
            at = self.joined.find(connection, at + 1)
        return at // ID_BYTES
