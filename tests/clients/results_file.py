"""Files of results, one a line: those of the last survey, each run in place of an earlier one of the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

Run = TypeVar("Run", bound=msgspec.Struct)


class ResultsFile(Generic[Run]):
    """A file of results. `key` says which run a result is of; the file is in the order of keys."""

    def __init__(self, path: Path, kind: type[Run], key: Callable[[Run], Any]) -> None:
        self._path, self._kind, self._key = path, kind, key

    def read(self) -> list[Run]:
        """The results of the last survey; none before the first."""
        lines = self._path.read_bytes().splitlines() if self._path.exists() else []
        return [msgspec.json.decode(line, type=self._kind) for line in lines]

    def keep(self, fresh: Iterable[Run]) -> None:
        """Put results in the place of older ones of the same runs."""
        known = {self._key(each): each for each in [*self.read(), *fresh]}
        self._path.write_bytes(b"".join(msgspec.json.encode(known[key]) + b"\n" for key in sorted(known)))


def today() -> str:
    """The date of a result."""
    return datetime.now(UTC).date().isoformat()
