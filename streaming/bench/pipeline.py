"""Bench: the whole query, compared with one that only passes records to Python; one core and two.

The bare query reads the same frames from a topic with one frame a record, passes every record through Python
and drops it. Both queries read batches of the same size, in turns. The first batch of each, the warm-up, is
left out.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import statistics
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any, Final, NamedTuple

from decoders.schema.registry import default_schemas
from decoders.wire.columnar.frames import FrameBatch
from streaming.bench import report
from streaming.bench.batches import Bench, MeasuredBatch
from streaming.bench.traffic import FRAMES_IN_ROUND, Traffic
from streaming.user_error import UserError


class Load(NamedTuple):
    """The content of a topic, and the frames per batch."""

    name: str
    connections: int
    frames: int
    frames_per_batch: int


FEW: Final = Load("1k", 1_000, 4_000_000, 1_000_000)
MANY: Final = Load("50k", 50_000, 8_000_000, 500_000)
"""Each connection has ten frames in a batch. Workers fill their caches in the first ten batches."""
CURVE: Final = (
    Load("1k", 1_000, 300_000, 100_000),
    Load("1k", 1_000, 1_500_000, 500_000),
    Load("50k", 50_000, 800_000, 200_000),
    Load("10k", 10_000, 1_500_000, 500_000),
)
"""Further loads whose batches are timed."""
BARE_BATCHES: Final = 2
"""Batches of the bare query, which has no caches to fill. One frame a record takes long to publish."""
_FULL: Final = 0.75
"""A batch with this share of the usual frames is full. Batches have equally many blocks, not frames."""
BY_CORES: Final = Load("frames", 1_000, 1_500_000, 500_000)


def measure(
    loads: Sequence[Load] = (FEW, MANY), curve: Sequence[Load] = CURVE, by_cores: Load = BY_CORES
) -> dict[str, Any]:
    """Measure; figures are frames per second and, by connections and frames, seconds of a batch."""
    figures: dict[str, float] = {}
    ratios: dict[str, float] = {}
    with Bench() as bench:
        for load in loads:
            bare, monitor = _beside_bare(bench, load)
            figures[f"bare_{load.name}_frames_per_second"] = frames_per_second(bare)
            figures[f"monitor_{load.name}_frames_per_second"] = frames_per_second(monitor)
            figures |= _batch_seconds(load, monitor)
            ratios[f"monitor_vs_bare_{load.name}"] = frames_per_second(monitor) / frames_per_second(bare)
        for load in curve:
            figures |= _batch_seconds(load, _monitor(bench, load))
    rates = {cores: _with_cores(cores, by_cores) for cores in (1, 2)}
    figures |= {f"monitor_{cores}_core_frames_per_second": rate for cores, rate in rates.items()}
    return report("pipeline", figures, ratios | {"cores_1_to_2": rates[2] / rates[1]})


def filled(bench: Bench, load: Load) -> int:
    """Fill the topic of a load, unless an earlier load has."""
    if load.name not in bench.topics:
        bench.fill(load.name, _traffic(load))
    return bench.topics[load.name]


def frames_per_second(batches: list[MeasuredBatch]) -> float:
    """Return the median rate of whole batches."""
    return statistics.median(batch.frames / batch.seconds for batch in _whole(batches))


def _beside_bare(bench: Bench, load: Load) -> tuple[list[MeasuredBatch], list[MeasuredBatch]]:
    frames, plain = filled(bench, load), f"{load.name}-plain"
    records = bench.fill(plain, _traffic(_with_bare_frames(load)), plain=True)
    bare = bench.bare(plain, records, load.frames_per_batch)
    monitor = bench.monitor(load.name, frames, load.frames_per_batch)
    bare += bench.bare(plain, records, load.frames_per_batch)[1:]
    return bare, monitor


def _with_bare_frames(load: Load) -> Load:
    return load._replace(frames=min(load.frames, BARE_BATCHES * load.frames_per_batch))


def _monitor(bench: Bench, load: Load) -> list[MeasuredBatch]:
    filled(bench, load)
    return bench.monitor(load.name, load.frames, load.frames_per_batch)


def _traffic(load: Load) -> Iterator[FrameBatch]:
    traffic = Traffic(default_schemas(), load.connections)
    rounds = range(load.frames // (load.connections * FRAMES_IN_ROUND))
    return itertools.chain(traffic.opening(), *(traffic.round(number) for number in rounds))


def _batch_seconds(load: Load, batches: list[MeasuredBatch]) -> dict[str, float]:
    name = f"batch_seconds_{load.name}_connections_{load.frames_per_batch // 1_000}k_frames"
    return {name: statistics.median(batch.seconds for batch in _whole(batches))}


def _whole(batches: list[MeasuredBatch]) -> list[MeasuredBatch]:
    """Leave out the first batch, which may be larger than others, and the last one, which is rarely full."""
    later = batches[1:] or batches
    usual = statistics.median(batch.frames for batch in later)
    return [batch for batch in later if batch.frames >= _FULL * usual]


def _with_cores(cores: int, load: Load) -> float:
    """Measure in separate processes, broker included, on a number of cores."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe()
    process = context.Process(target=_measure_on, args=(sender, cores, load))
    process.start()
    sender.close()
    try:
        rate: float = receiver.recv()
    except EOFError:
        raise UserError(f"the bench on {cores} cores failed; see its output above") from None
    finally:
        process.join()
    return rate


def _measure_on(sender: Connection, cores: int, load: Load) -> None:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    with Bench() as bench:
        sender.send(frames_per_second(_monitor(bench, load)))
