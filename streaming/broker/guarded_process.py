"""A guarded process whose output goes to a log file; a context manager that ends it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from streaming.broker import child_guard


class GuardedProcess:
    """A running command under a guard. Leaving it as a context manager ends the command."""

    def __init__(
        self,
        command: Sequence[str | Path],
        log: Path,
        source: IO[bytes] | None = None,
        patience: float = child_guard.PATIENCE,
    ) -> None:
        """Start the command with its output in `log`, as `child_guard.start` does."""
        self.log = log
        with log.open("wb") as output:
            self._guard = child_guard.start(command, output, source, patience)

    def stop(self) -> None:
        """Stop the command and wait until it has ended; a command that has ended already is no error."""
        child_guard.stop(self._guard)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.stop()

    def last_line(self) -> str:
        """Return the last line that the command has printed."""
        return last_line(self.log.read_text(errors="replace"))


def last_line(text: str) -> str:
    """Return the last line of a text that is not blank, for an error message."""
    return next((line for line in reversed(text.splitlines()) if line.strip()), "it printed nothing")
