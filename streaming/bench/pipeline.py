"""What judging costs beside merely handing records to Python, and what a second core gives.

The bare query reads the frames topic, passes every record through Python and drops it. Both queries read
the same topic in batches of the same size, in turns. The first batch of each is left out: it warms up.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import statistics
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any, Final

from decoders.schema.registry import default_schemas
from streaming.bench.batches import Batch, Bench
from streaming.bench.report import report
from streaming.bench.traffic import FRAMES_IN_ROUND, Keyed, Traffic
from streaming.failure import UserError

FRAMES: Final = 2_000_000
FRAMES_PER_BATCH: Final = 500_000
FEW, MANY = 1_000, 50_000
"""Connections; of the many each has ten frames in a batch."""
FRAMES_BY_CORES: Final = 1_000_000


def measure(frames: int = FRAMES, frames_per_batch: int = FRAMES_PER_BATCH) -> dict[str, Any]:
    """Measure; figures are frames per second and, by number of connections, seconds of a batch."""
    figures: dict[str, float] = {}
    with Bench(frames_per_batch) as bench:
        for name, connections in (("1k", FEW), ("50k", MANY)):
            figures |= _beside_bare(bench, name, connections, frames)
    ratios = {
        f"monitor_vs_bare_{name}": figures[f"monitor_{name}_frames_per_second"]
        / figures[f"bare_{name}_frames_per_second"]
        for name in ("1k", "50k")
    }
    by_cores = {cores: _with_cores(cores, frames_per_batch) for cores in (1, 2)}
    figures |= {f"monitor_{cores}_core_frames_per_second": rate for cores, rate in by_cores.items()}
    return report("pipeline", figures, ratios | {"cores_1_to_2": by_cores[2] / by_cores[1]})


def _beside_bare(bench: Bench, name: str, connections: int, frames: int) -> dict[str, float]:
    records = bench.fill(name, _said(connections, frames))
    bare = bench.bare(name, records)
    monitor = bench.monitor(name, records)
    bare += bench.bare(name, records)[1:]
    return {
        f"bare_{name}_frames_per_second": _rate(bare),
        f"monitor_{name}_frames_per_second": _rate(monitor),
        f"monitor_{name}_batch_seconds": statistics.median(batch.seconds for batch in _whole(monitor)),
    }


def _said(connections: int, frames: int) -> Iterator[Keyed]:
    traffic = Traffic(default_schemas(), connections)
    rounds = range(frames // (connections * FRAMES_IN_ROUND))
    return itertools.chain(traffic.opening(), *(traffic.round(number) for number in rounds))


def _whole(batches: list[Batch]) -> list[Batch]:
    """Leave out the first batch, and the last, which is seldom full."""
    fullest = max(batch.records for batch in batches)
    return [batch for batch in batches[1:] if batch.records == fullest] or batches[1:] or batches


def _rate(batches: list[Batch]) -> float:
    return statistics.median(batch.records / batch.seconds for batch in _whole(batches))


def _with_cores(cores: int, frames_per_batch: int) -> float:
    """Measure in a process tree of its own, broker included, that has so many cores."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_bound_to, args=(there, cores, frames_per_batch))
    process.start()
    there.close()
    try:
        rate: float = here.recv()
    except EOFError:
        raise UserError(f"the bench on {cores} cores ended early; see what it printed") from None
    finally:
        process.join()
    return rate


def _bound_to(answer: Connection, cores: int, frames_per_batch: int) -> None:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    with Bench(frames_per_batch // 2) as bench:
        records = bench.fill("frames", _said(FEW, FRAMES_BY_CORES))
        answer.send(_rate(bench.monitor("frames", records)))
