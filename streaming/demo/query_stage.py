"""What the query is doing, in words: Spark starts, Kafka is away, the first batch runs."""

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
    """Say what keeps the query from judging; "" once it has judged a frame and reads on.

    `event` is the last one that it has logged, `responds` whether its metrics page does.
    """
    trouble = _trouble(event)
    if has_judged or trouble:
        return trouble
    match event.get("query"):
        case "starting-workers":
            return f"Spark starts its Python workers for the first batch, tasks done: {event['tasks']}"
        case "started" | "kafka-back":
            return "Spark runs, the first batch begins"
        case None:
            return "Spark starts" if responds else "the query is loading"
        case _:
            return "Spark runs, the first batch ends"


def _trouble(event: dict[str, Any]) -> str:
    match event.get("query"):
        case "kafka-away":
            return f"the query waits for Kafka: {event['reason']}"
        case "ended":
            return f"the query ended and starts again: {event['line']}"
        case _:
            return ""


def finding_note(has_finding: bool, has_planted: bool, waits: int) -> str:
    """Say why there is no finding yet; "" once there is one."""
    if has_finding:
        return ""
    if not has_planted:
        return "no finding yet: no offence is planted so far"
    if waits:
        return "no finding yet: the planted offences wait to be judged"
    return "no finding yet: a batch writes its findings when it ends"


def load_note() -> str:
    """Say that the machine is busy; "" if it is not."""
    load, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
    return f"this machine is busy: load {load:.1f} on {cores} cores" if load > BUSY * cores else ""
