"""The road under steady traffic for a long time, with samples of its memory.

Clients send requests at a steady rate and reconnect every half minute. Their traffic reaches the feeder as a
capture on its standard input; broker, feeder and query are real.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from streaming.bench.check_capture import PER_WORK, WORKS
from streaming.bench.wire_capture import SyntheticCapture
from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.ports import free_ports
from streaming.broker.topics import create_topics
from streaming.demo.child import Child
from streaming.demo.page import scrape
from streaming.settings.topic_settings import FramesTopicSettings, Topics
from tests.e2e.chart import chart
from tests.e2e.process_tree import resident_mebibytes

FRAMES_PER_SECOND: Final = 40_000
STARTED: Final = 120.0
SAMPLE_SECONDS: Final = 10.0
RECONNECT_SECONDS: Final = 30
TOPICS: Final = Topics(frames=FramesTopicSettings(retention_hours=5 / 60))
_FRAMES_IN_BLOCK: Final = 2 * PER_WORK
_SEQUENCES: Final = 1 << 30
"""Distance between the TCP sequence numbers of a client's consecutive connections."""
_MEBIBYTE: Final = 1 << 20


class SoakSample(msgspec.Struct):
    """Measurements at a time, in seconds since the traffic began. Memory is in MiB.

    `driver` is the query's Python, `java` its JVM with the executor, `workers` are Spark's Python workers.
    `lag` is the number of records that wait in the topic.
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
            create_topics(broker.internal, "frames", "findings", TOPICS)
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
            threading.Thread(target=self._send, args=(inlet,), daemon=True).start()
            self._started = time.monotonic()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def samples(self, seconds: float) -> Iterator[SoakSample]:
        """Yield a sample every few seconds, for `seconds`. Raises UserError if feeder or query have ended."""
        while time.monotonic() - self._started < seconds:
            time.sleep(SAMPLE_SECONDS)
            for child in (self._query, self._feeder):
                child.check_running()
            page = scrape(self._page_at)
            if page is not None:
                yield self._sample(page)

    def _sample(self, page: Any) -> SoakSample:
        query = resident_mebibytes(self._query.process_id)
        return SoakSample(
            seconds=round(time.monotonic() - self._started, 1),
            feeder=sum(resident_mebibytes(self._feeder.process_id).values()),
            driver=query.get("driver", 0.0),
            java=query.get("java", 0.0),
            workers=query.get("workers", 0.0),
            state=page.total("kipwatch_state_bytes") / _MEBIBYTE,
            open_connections=page.total("kipwatch_open_connections"),
            frames=page.total("kipwatch_frames_total"),
            lag=page.total("kipwatch_topic_lag_records"),
        )

    def _send(self, inlet: int) -> None:
        """Write packets at the rate of the soak, until the pipe is closed."""
        begin = time.monotonic()
        with suppress(BrokenPipeError), os.fdopen(inlet, "wb") as pipe:
            for number, block in enumerate(traffic(self._rate)):
                time.sleep(max(0.0, begin + number * _FRAMES_IN_BLOCK / self._rate - time.monotonic()))
                pipe.write(block)
                pipe.flush()


def traffic(frames_per_second: int) -> Iterator[bytes]:
    """Yield an endless capture, in blocks of one exchange of a third of the clients."""
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


def curves(samples: list[SoakSample]) -> str:
    """Draw the memory over time as SVG."""
    names = {"feeder": "feeder", "driver": "driver, Python", "java": "driver and executor, JVM"}
    names |= {"workers": "Spark's Python workers", "state": "state"}
    lines = {
        name: [(sample.seconds / 60, getattr(sample, field)) for sample in samples]
        for field, name in names.items()
    }
    return chart("Resident memory under steady traffic", "minutes", "MiB", lines)
