"""The road under traffic from a pipe, with samples of its memory.

The traffic reaches the feeder as a capture on its standard input; broker, feeder and query are real.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.topics import create_topics
from streaming.demo.progress import scrape
from streaming.demo.road import Child
from streaming.settings.configuration import FramesTopicSettings, Topics
from tests.e2e.chart import chart
from tests.e2e.pages import free_pages
from tests.e2e.process_tree import resident_mebibytes

FRAMES_TOPIC: Final = "frames"
FINDINGS_TOPIC: Final = "findings"
STARTED: Final = 120.0
TOPICS: Final = Topics(frames=FramesTopicSettings(retention_hours=5 / 60))
_MEBIBYTE: Final = 1 << 20
_WHOLE_HEAP: Final = '[spark]\n"spark.driver.defaultJavaOptions" = "-Xms1g -XX:+AlwaysPreTouch"\n'


class Sample(msgspec.Struct):
    """Measurements at a time, in seconds since the road was entered. Memory is in MiB.

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


class SampledRoad:
    """Broker, feeder and query under the traffic that `blocks` yields; a context manager.

    `blocks` is the capture in pieces, each when it is to be sent. `bootstrap` is the broker's address. With
    `whole_heap` the JVM takes its whole heap when it starts, so that it grows only by what leaks outside.
    """

    def __init__(self, folder: Path, blocks: Iterator[bytes], whole_heap: bool = False) -> None:
        self.folder = folder
        self._blocks = blocks
        self._configuration = _WHOLE_HEAP if whole_heap else ""
        self.bootstrap = ""

    def __enter__(self) -> SampledRoad:
        with ExitStack() as stack:
            broker = stack.enter_context(EmbeddedBroker())
            self.bootstrap = broker.internal
            create_topics(broker.internal, FRAMES_TOPIC, FINDINGS_TOPIC, TOPICS)
            kafka = ["--bootstrap", broker.internal, "--frames-topic", FRAMES_TOPIC]
            self._page_at, feeder_page = free_pages(2)
            run = ["run", *kafka, "--findings-topic", FINDINGS_TOPIC, "--metrics-address", self._page_at]
            run += ["--checkpoint", str(self.folder / "checkpoint")]
            if self._configuration:
                path = self.folder / "kipwatch.toml"
                path.write_text(self._configuration)
                run += ["--config", str(path)]
            self._query = stack.enter_context(Child(run, self.folder / "run.log"))
            self._query.wait_for('"query": "started"', STARTED)
            outlet, inlet = os.pipe()
            feed = ["feed", "-", *kafka, "--feeder-metrics-address", feeder_page]
            with os.fdopen(outlet, "rb") as source:
                self._feeder = stack.enter_context(Child(feed, self.folder / "feed.log", source))
            threading.Thread(target=self._send, args=(inlet,), daemon=True).start()
            self._started = time.monotonic()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def seconds(self) -> float:
        """Seconds since the road was entered."""
        return time.monotonic() - self._started

    def sample(self) -> Sample | None:
        """Measure; None if the query does not respond. Raises UserError if feeder or query have ended."""
        for child in (self._query, self._feeder):
            child.check_running()
        page = scrape(self._page_at)
        return None if page is None else self._sample(page)

    def samples(self, seconds: float, every: float) -> Iterator[Sample]:
        """Yield a sample `every` so many seconds, for `seconds`. Raises UserError like `sample`."""
        while self.seconds < seconds:
            time.sleep(every)
            sample = self.sample()
            if sample is not None:
                yield sample

    def _sample(self, page: Any) -> Sample:
        query = resident_mebibytes(self._query.process_id)
        return Sample(
            seconds=round(self.seconds, 1),
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
        """Write the blocks until they end or the pipe is closed."""
        with suppress(BrokenPipeError), os.fdopen(inlet, "wb") as pipe:
            for block in self._blocks:
                pipe.write(block)
                pipe.flush()


def paced(blocks: Iterator[bytes], a_second: float) -> Iterator[bytes]:
    """Yield so many blocks a second, from the first on."""
    begin = time.monotonic()
    for number, block in enumerate(blocks):
        time.sleep(max(0.0, begin + number / a_second - time.monotonic()))
        yield block


def curves(title: str, samples: list[Sample]) -> str:
    """Draw the memory over time as SVG."""
    names = {"feeder": "feeder", "driver": "driver, Python", "java": "driver and executor, JVM"}
    names |= {"workers": "Spark's Python workers", "state": "state"}
    lines = {
        name: [(sample.seconds / 60, getattr(sample, field)) for sample in samples]
        for field, name in names.items()
    }
    return chart(title, "minutes", "MiB", lines)
