"""How far the query has come, in words: Spark starts, its workers start, the first batch runs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

BUSY: Final = 1.5
"""The load of each core from which a machine is called busy."""


def last_event(log: Path) -> dict[str, Any]:
    """Return the last event of the query's log, empty if there is none. Other lines are Spark's."""
    written, _, _ = log.read_text(errors="replace").rpartition("\n")
    for line in reversed(written.splitlines()):
        if line.startswith('{"query": '):
            event: dict[str, Any] = json.loads(line)
            return event
    return {}


def stage(event: dict[str, Any], responds: bool, has_judged: bool) -> str:
    """Say what keeps the query from judging; "" once it has judged a frame.

    `event` is the last one that it has logged, `responds` whether its metrics page does.
    """
    if has_judged:
        return ""
    match event.get("query"):
        case None:
            return "Spark starts" if responds else "the query is loading"
        case "starting-workers":
            return f"Spark starts its Python workers for the first batch, tasks done: {event['tasks']}"
        case "started" | "kafka-back":
            return "Spark runs, the first batch begins"
        case "kafka-away":
            return f"the query waits for Kafka: {event['reason']}"
        case _:
            return "Spark runs, the first batch ends"


def load_note() -> str:
    """Say that the machine is busy; "" if it is not."""
    load, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
    return f"this machine is busy: load {load:.1f} on {cores} cores" if load > BUSY * cores else ""
