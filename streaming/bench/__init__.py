"""Benches: how fast and how large each part of kipwatch is, beside other tools if there are any.

They share sides that run in turns, their processor time, and the form of the report.
"""

from __future__ import annotations

import os
import platform
import resource
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def in_turns(sides: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Run all sides in turns; return the seconds of processor time of each run.

    Processor time is compared because each side keeps one core busy and none waits for a disk. That of
    processes which a side has started and waited for counts, too.
    """
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, run in sides.items():
            begin = _processor_time()
            run()
            seconds[name].append(_processor_time() - begin)
    return seconds


def report(name: str, figures: Mapping[str, float], ratios: Mapping[str, float]) -> dict[str, Any]:
    """Make the JSON object of a bench: {name, figures{}, ratios{}, machine{}}.

    The names of figures end in their unit. Only ratios, whose sides are measured in one run, can be compared
    between machines.
    """
    return {
        "name": name,
        "figures": {key: _rounded(value) for key, value in figures.items()},
        "ratios": {key: _rounded(value) for key, value in ratios.items()},
        "machine": _machine(),
    }


def _processor_time() -> float:
    """Return the processor time of this process and of its finished children, in seconds."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def _machine() -> dict[str, Any]:
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 2),
    }


def _processor() -> str:
    """Return the processor's name of Linux; on other systems, its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
