"""The processes that a process started."""

from __future__ import annotations

from pathlib import Path


def children(process_id: int) -> list[int]:
    """Give them by their ids, which as a rule is the order in which they were started."""
    found = Path(f"/proc/{process_id}/task").glob("*/children")
    return sorted(int(child) for task in found for child in task.read_text().split())
