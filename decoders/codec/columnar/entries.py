"""The tables of entries: at which row of the tape a frame is read, by API key and version."""

from __future__ import annotations

from typing import Any, Final

from decoders.codec.columnar.numbers import wide
from decoders.compilation import inlined

REQUESTS: Final = 0
RESPONSES: Final = 1
RIVALS: Final = 2
"""Of versions that only the overlay knows: header 2 with the request of the version before."""
TAGGED_REQUESTS: Final = 3
"""Of the same versions, with the header in its tagged layout."""
NOWHERE: Final = -1
"""No row of the tape."""


@inlined
def entry_of(entries: Any, table: int, key: int, version: int) -> Any:
    if key < 0 or version < 0 or key >= entries.shape[1] or version >= entries.shape[2]:
        return NOWHERE
    return wide(entries[table, key, version])
