"""Examines the key logs of a configuration, and reads their secrets while the doctor captures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from decoders.tls.key_log import KeyLog
from streaming.doctor.diagnosis import Diagnosis, Verdict
from streaming.feeder.core_dumps import forbid_core_dumps
from streaming.feeder.key_log_files import FollowedKeyLogs

_VERDICTS: Final = {"key-log-read": Verdict.YES, "key-log-unreadable": Verdict.NO}
"""What an event of a file means; any other is worth a look."""


class ExaminedKeyLogs:
    """The key logs that a feeder would follow; a context manager. `key_log` is None if there are none."""

    def __init__(self, paths: Sequence[Path]) -> None:
        if paths:
            forbid_core_dumps()
        self._found: dict[Path, Diagnosis] = {}
        self._files = FollowedKeyLogs(paths, self._note)
        self.key_log: KeyLog | None = self._files.key_log if paths else None

    def __enter__(self) -> ExaminedKeyLogs:
        self.poll()
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()

    def poll(self) -> None:
        """Read what was written since the last call."""
        self._files.poll()

    def diagnoses(self) -> Iterator[Diagnosis]:
        """Yield a line for each file: what was last said of it."""
        yield from self._found.values()

    def _note(self, event: str, path: Path, message: str) -> None:
        verdict = _VERDICTS.get(event, Verdict.NOTE)
        self._found[path] = Diagnosis(verdict, f"key log {path}", message)
