"""Where a survey puts its captures."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def kept_or_scratch(keep: Path | None) -> Iterator[Path]:
    """Make and yield the folder whose captures are kept, or else one that is removed at the end."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
