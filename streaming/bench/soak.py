"""The road under steady traffic for a long time: what feeder, driver, workers and state come to take.

Clients speak at a steady rate and connect anew every half minute, so that connections come and go. What
they say reaches the feeder as a capture on its standard input; broker, feeder and query are the real ones.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import msgspec

from streaming.bench.chart import chart
from streaming.bench.check_capture import PER_WORK, WORKS
from streaming.bench.child_processes import children
from streaming.bench.wire_capture import SyntheticCapture
from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.ports import free_ports
from streaming.broker.topics import create_topics
from streaming.demo.child import Child
from streaming.demo.page import scrape

FRAMES_PER_SECOND: Final = 40_000
STARTED: Final = 120.0
SAMPLE_SECONDS: Final = 10.0
RECONNECT_SECONDS: Final = 30
RETENTION: Final = timedelta(minutes=5)
_FRAMES_IN_BLOCK: Final = 2 * PER_WORK
_SEQUENCES: Final = 1 << 30
"""How far the sequence numbers of a client's next connection are from those of the one before."""
_MEBIBYTE: Final = 1 << 20


class Sample(msgspec.Struct):
    """What was seen at a time, in seconds since the traffic began. Memory is in MiB.

    `driver` is the query's Python, `java` its JVM, in which the executor runs, `workers` are Spark's
    Python workers. `lag` counts records that wait in the topic.
    """

    seconds: float
    feeder: float
    driver: float
    java: float
    workers: float
    state: float
    open_connections: float
    frames: float
    lag: float


class Soak:
    """Broker, feeder and query under traffic; a context manager."""

    def __init__(self, folder: Path, frames_per_second: int = FRAMES_PER_SECOND) -> None:
        self._folder, self._rate = folder, frames_per_second

    def __enter__(self) -> Soak:
        with ExitStack() as stack:
            broker = stack.enter_context(EmbeddedBroker())
            create_topics(broker.internal, "frames", "findings", retention=RETENTION)
            kafka = ["--bootstrap", broker.internal, "--frames-topic", "frames"]
            self._page_at, feeder_page = (f"127.0.0.1:{port}" for port in free_ports(2))
            run = ["run", *kafka, "--findings-topic", "findings", "--metrics-address", self._page_at]
            run += ["--checkpoint", str(self._folder / "checkpoint")]
            self._query = stack.enter_context(Child(run, self._folder / "run.log"))
            self._query.wait_for('"query": "started"', STARTED)
            outlet, inlet = os.pipe()
            feed = ["feed", "-", *kafka, "--feeder-metrics-address", feeder_page]
            with os.fdopen(outlet, "rb") as source:
                self._feeder = stack.enter_context(Child(feed, self._folder / "feed.log", source))
            threading.Thread(target=self._speak, args=(inlet,), daemon=True).start()
            self._began = time.monotonic()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def samples(self, seconds: float) -> Iterator[Sample]:
        """Look every few seconds for so long. Raises UserError when feeder or query have ended."""
        while time.monotonic() - self._began < seconds:
            time.sleep(SAMPLE_SECONDS)
            for child in (self._query, self._feeder):
                child.check_running()
            page = scrape(self._page_at)
            if page is not None:
                yield self._sample(page)

    def _sample(self, page: Any) -> Sample:
        query = _memory_of(self._query.process_id)
        return Sample(
            seconds=round(time.monotonic() - self._began, 1),
            feeder=sum(_memory_of(self._feeder.process_id).values()),
            driver=query.get("driver", 0.0),
            java=query.get("java", 0.0),
            workers=query.get("workers", 0.0),
            state=page.total("kipwatch_state_bytes") / _MEBIBYTE,
            open_connections=page.total("kipwatch_open_connections"),
            frames=page.total("kipwatch_frames_total"),
            lag=page.total("kipwatch_topic_lag_records"),
        )

    def _speak(self, inlet: int) -> None:
        """Write packets as their time comes, until nobody reads them."""
        begin = time.monotonic()
        with suppress(BrokenPipeError), os.fdopen(inlet, "wb") as pipe:
            for number, block in enumerate(_traffic(self._rate)):
                time.sleep(max(0.0, begin + number * _FRAMES_IN_BLOCK / self._rate - time.monotonic()))
                pipe.write(block)
                pipe.flush()


def _traffic(frames_per_second: int) -> Iterator[bytes]:
    """Give a capture without end, an exchange of a third of the clients at a time."""
    blocks = RECONNECT_SECONDS * frames_per_second // _FRAMES_IN_BLOCK // len(WORKS)
    for turn in itertools.count():
        streams = [
            SyntheticCapture(PER_WORK, work(), number * PER_WORK, turn * _SEQUENCES % (1 << 32)).blocks()
            for number, work in enumerate(WORKS)
        ]
        headers = [next(stream) for stream in streams]
        if turn == 0:
            yield headers[0]
        for _ in range(blocks):
            yield from map(next, streams)


def _memory_of(root: int) -> dict[str, float]:
    """Add up the resident memory of a process and all below it, in MiB, by what they are."""
    found: dict[str, float] = {}
    for pid in _tree(root):
        with suppress(OSError, IndexError):
            command = Path(f"/proc/{pid}/cmdline").read_text()
            resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            kind = "workers" if "pyspark" in command and "java" not in command else "driver"
            kind = "java" if command.partition("\0")[0].endswith("java") else kind
            found[kind] = found.get(kind, 0.0) + resident * os.sysconf("SC_PAGE_SIZE") / _MEBIBYTE
    return found


def _tree(root: int) -> Iterator[int]:
    yield root
    for child in children(root):
        yield from _tree(child)


def curves(samples: list[Sample]) -> str:
    """Draw the memory as SVG."""
    names = {"feeder": "feeder", "driver": "driver, Python", "java": "driver and executor, JVM"}
    names |= {"workers": "Spark's Python workers", "state": "state"}
    lines = {
        name: [(sample.seconds / 60, getattr(sample, field)) for sample in samples]
        for field, name in names.items()
    }
    return chart("Resident memory under steady traffic", "minutes", "MiB", lines)
