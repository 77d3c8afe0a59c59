"""The report of a bench: its figures, their ratios, and the machine."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any


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
