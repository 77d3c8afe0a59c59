"""Bench: the whole query with an archive, compared with the same query without one.

Queries that write the archive run in turns with others that do not, and each side is first in every other
turn: the machine changes its pace between two runs by more than archiving costs. Only the later half of a run
counts, when workers have filled their caches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from streaming.bench import report
from streaming.bench.batches import Bench, MeasuredBatch
from streaming.bench.pipeline import FEW, MANY, Load, filled, frames_per_second

TURNS: Final = 2


def measure(loads: Sequence[Load] = (FEW, MANY), turns: int = TURNS) -> dict[str, Any]:
    """Measure; figures are frames per second of both sides by load."""
    figures: dict[str, float] = {}
    ratios: dict[str, float] = {}
    with Bench() as bench:
        for load in loads:
            filled(bench, load)
            archiving, others = (frames_per_second(side) for side in _in_turns(bench, load, turns))
            figures[f"archiving_{load.name}_frames_per_second"] = archiving
            figures[f"monitor_{load.name}_frames_per_second"] = others
            ratios[f"archiving_vs_monitor_{load.name}"] = archiving / others
    return report("archiving", figures, ratios)


def _in_turns(bench: Bench, load: Load, turns: int) -> tuple[list[MeasuredBatch], list[MeasuredBatch]]:
    archiving, others = list[MeasuredBatch](), list[MeasuredBatch]()
    for turn in range(turns):
        for archives in (turn % 2 == 0, turn % 2 == 1):
            run = bench.monitor(load.name, load.frames, load.frames_per_batch, archives=archives)
            (archiving if archives else others).extend(run[len(run) // 2 :])
    return archiving, others
