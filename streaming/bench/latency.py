"""Bench: the delay from the capture of a frame until the metrics count it.

Frames are published at a steady rate, with that time as capture time, like those of a feeder beside the
broker. A delay ends when the metrics of the batch are set, and is rounded up to a tenth of a second.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from decoders.schema.registry import default_schemas
from decoders.wire.columnar.frames import FrameBatch
from streaming.bench import report
from streaming.bench.batches import Bench
from streaming.bench.traffic import Traffic, captured_now
from streaming.judging.report import Report

FRAMES_PER_SECOND: Final = 1_000
SECONDS: Final = 60
WARM_UP: Final = 30
"""Seconds of frames that are not counted, while the query starts and compiles."""
CONNECTIONS: Final = 500
_TENTHS: Final = 10
_SLICES: Final = 20
"""Times a second that frames are published."""


class Delays:
    """The number of frames by delay in tenths of a second."""

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()
        self._start = time.time() + WARM_UP

    def add(self, _batch: int, reports: Sequence[Report]) -> None:
        """Add the delays of a batch, now that its metrics are set."""
        captured = [report.captured for report in reports]
        now = time.time()
        for counts in captured:
            for tenth, count in counts.items():
                if tenth / _TENTHS > self._start:
                    self.counts[int((now - tenth / _TENTHS) * _TENTHS) + 1] += count

    def percentile(self, share: float) -> float:
        """Return the delay in seconds that this share of all frames does not exceed."""
        left = share * self.counts.total()
        for delay, count in sorted(self.counts.items()):
            left -= count
            if left <= 0:
                return delay / _TENTHS
        return float("nan")


def measure(seconds: int = SECONDS, frames_per_second: int = FRAMES_PER_SECOND) -> dict[str, Any]:
    """Measure, and report percentiles of the delay in seconds."""
    frames = (WARM_UP + seconds) * frames_per_second
    with Bench() as bench:
        traffic = Traffic(default_schemas(), CONNECTIONS)
        opened = bench.fill("frames", captured_now(traffic.opening()))
        delays = Delays()
        paced = _paced(traffic, frames, frames_per_second)
        publishing = threading.Thread(target=bench.fill, args=("frames", paced), daemon=True)
        publishing.start()
        per_batch = bench.configuration.frames_per_batch
        bench.monitor("frames", opened + frames, per_batch, take=delays.add)
        publishing.join()
    figures = {f"p{share}_seconds": delays.percentile(share / 100) for share in (50, 95, 99)}
    return report("latency", figures | {"frames_per_second": float(frames_per_second)}, {})


def _paced(traffic: Traffic, frames: int, frames_per_second: int) -> Iterator[FrameBatch]:
    """Yield `frames` frames, each slice when it is due."""
    start, size = time.monotonic(), frames_per_second // _SLICES
    batches = itertools.chain.from_iterable(map(traffic.round, itertools.count()))
    slices = itertools.chain.from_iterable(batch.parts(size) for batch in batches)
    for number, part in enumerate(itertools.islice(slices, frames // size)):
        time.sleep(max(0.0, start + number / _SLICES - time.monotonic()))
        yield from captured_now(iter([part]))
