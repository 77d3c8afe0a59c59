"""The processes that a process started."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def children(process_id: int) -> list[int]:
    """Give them by their ids, which as a rule is the order in which they were started.

    One that has ended has none.
    """
    found: list[int] = []
    # A child belongs to the thread that started it.
    with suppress(OSError):
        for task in Path(f"/proc/{process_id}/task").glob("*/children"):
            found.extend(map(int, task.read_text().split()))
    return sorted(found)
