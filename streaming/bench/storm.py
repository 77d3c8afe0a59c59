"""Bench: a reconnect storm, in which all clients connect anew at once, compared with steady traffic.

Each connection opens, negotiates, joins a group and sends a heartbeat, in waves of WAVE connections that
speak in turns: clients do not connect at one moment, and most are done before the last have begun.
The first storm fills the workers' caches, then follows steady traffic of all connections, then the storm that
is measured. A batch has as many frames as the storm, but the storm begins amid a batch: the steady frames of
that one are taken to need the time that they need elsewhere.

The cost of an opening is measured apart, in the step of a bucket in this process: by the automaton, and by
the rules alone.
"""

from __future__ import annotations

import itertools
import secrets
import statistics
import time
from collections.abc import Iterator
from typing import Any, Final

from decoders.schema.registry import default_schemas
from decoders.wire.columnar.frames import FrameBatch, joined
from expectations.conversation.columnar.window_columns import WindowColumns
from expectations.conversation.columnar.windows import Arrival, ColumnarWindows
from expectations.judging.automaton import Automaton
from expectations.judging.judge import Judge
from streaming.bench import report
from streaming.bench.batches import Bench, MeasuredBatch
from streaming.bench.traffic import SOFTWARE_NAME, Traffic
from streaming.judging.bucket_input import by_bucket, pack_input, unpack_input
from streaming.judging.step import BucketStep
from streaming.state.bucket import Bucket, pack_bucket

CONNECTIONS: Final = 50_000
ROUNDS: Final = 7
"""Rounds of steady traffic: ten batches, of which the first half fills caches."""
FRAMES_OF_OPENING: Final = 7
WAVE: Final = 2_000
"""Connections that open at the same time, as in a storm of ten seconds whose openings take 0.4 s each."""
STEPPED: Final = 4_000
"""Connections whose openings are stepped in this process."""
_FIRST_RUN, _SECOND_RUN = 1, 2
_CONNECTIONS_OF_A_BUCKET: Final = 244


def measure(connections: int = CONNECTIONS, rounds: int = ROUNDS, stepped: int = STEPPED) -> dict[str, Any]:
    """Measure; figures are frames per second, seconds of the storm, and microseconds of an opening."""
    before, storm = (Traffic(default_schemas(), connections, run) for run in (_FIRST_RUN, _SECOND_RUN))
    steady = (before.round(number) for number in range(rounds))
    frames = connections * FRAMES_OF_OPENING
    with Bench() as bench:
        records = bench.fill(
            "frames", itertools.chain(_storm(before, connections), *steady, _storm(storm, connections))
        )
        batches = bench.monitor("frames", records, frames)
    seconds, steady_rate = storm_seconds(batches, frames)
    rates = {"storm_frames_per_second": frames / seconds, "steady_frames_per_second": steady_rate}
    judge = Judge(default_schemas().api_names)
    figures = rates | {
        "connections": float(connections),
        "seconds_until_all_are_judged": seconds,
        "opening_microseconds": opening_microseconds(judge, Automaton(judge, secrets.token_bytes()), stepped),
        "opening_by_rules_microseconds": opening_microseconds(judge, None, stepped),
    }
    return report("storm", figures, {"storm_vs_steady": frames / seconds / steady_rate})


def _storm(traffic: Traffic, connections: int) -> Iterator[FrameBatch]:
    for begin in range(0, connections, WAVE):
        yield from traffic.opening(begin, min(begin + WAVE, connections))


def storm_seconds(batches: list[MeasuredBatch], frames: int) -> tuple[float, float]:
    """Return the seconds that the last `frames` took, and the frames per second of the later half before."""
    begin = len(batches)
    while begin > 0 and sum(batch.frames for batch in batches[begin:]) < frames:
        begin -= 1
    steady = statistics.median(batch.frames / batch.seconds for batch in batches[begin // 2 : begin])
    of_others = sum(batch.frames for batch in batches[begin:]) - frames
    return sum(batch.seconds for batch in batches[begin:]) - of_others / steady, steady


def opening_microseconds(
    judge: Judge, automaton: Automaton | None, connections: int, software_name: str = SOFTWARE_NAME
) -> float:
    """Step buckets of new connections, store them, and return the cost of a connection in the second turn."""
    step = BucketStep(judge, default_schemas().by_key, automaton=automaton)
    seconds = 0.0
    for run in (_FIRST_RUN, _SECOND_RUN):
        windows = _windows(Traffic(default_schemas(), connections, run, software_name), connections)
        begun = time.process_time()
        for number, inside in windows.items():
            bucket = Bucket()
            step.process(number, bucket, [inside])
            pack_bucket(bucket)
        seconds = time.process_time() - begun
    return seconds / connections * 1e6


def _windows(traffic: Traffic, connections: int) -> dict[int, WindowColumns]:
    """Return the windows of each bucket as the query's first stage makes them."""
    buckets = max(1, connections // _CONNECTIONS_OF_A_BUCKET)
    (batch,) = joined(traffic.opening(), 1 << 62)
    columns = ColumnarWindows(default_schemas(), secrets.token_bytes()).columns_of(Arrival.of_file(batch, ""))
    inputs = by_bucket(columns, buckets)
    return {number: unpack_input(pack_input(each)).columns() for number, each in inputs.items()}
