"""A query that is stopped, or whose JVM is killed or does not start, ends without a traceback."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from pyspark import cloudpickle

from decoders.schema.registry import default_schemas
from expectations.judging.terms import Terms
from streaming.bench.traffic import Traffic, publish_blocks
from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.topics import create_topics
from streaming.demo.progress import scrape
from streaming.demo.road import Child
from streaming.query.query import reports_of, start_query
from streaming.query.session import spark_session
from streaming.query.stages import BucketProcessor
from streaming.settings.configuration import Configuration, FramesTopicSettings, Topics
from streaming.state.bucket import Bucket
from tests.e2e.pages import free_pages
from tests.e2e.process_tree import children, send_signal
from tests.waiting import until

ONE_PARTITION = Topics(frames=FramesTopicSettings(partitions=1))
pytestmark = [pytest.mark.jvm, pytest.mark.e2e, pytest.mark.timeout(300)]

STARTED, ENDED = 120.0, 60.0
cloudpickle.register_pickle_by_value(sys.modules[__name__])


class SlowProcessor(BucketProcessor):
    """A processor that takes long to load a bucket, and creates a file first."""

    def __init__(self, started: Path) -> None:
        super().__init__(2, Terms())
        self._started = started

    def _load(self, number: int) -> Bucket:
        self._started.touch()
        time.sleep(20)
        return super()._load(number)


def test_a_jvm_that_does_not_start_says_why_in_one_line(tmp_path: Path) -> None:
    config = tmp_path / "kipwatch.toml"
    config.write_text('[spark]\n"spark.driver.memory" = "much"\n')
    with Child(["run", "--dry-run", "--config", str(config)], tmp_path / "run.log") as query:
        query.wait(STARTED)
    (error,) = [line for line in query.log.read_text().splitlines() if line.startswith("kipwatch: ")]
    assert "Spark's JVM did not start: " in error and "much" in error


def test_a_reload_while_the_query_loads_does_not_end_it(tmp_path: Path) -> None:
    """It needs no Kafka for that: nothing listens at the address."""
    (page,) = free_pages(1)
    command = ["run", "--bootstrap", "127.0.0.1:1", "--metrics-address", page]
    with Child([*command, "--checkpoint", str(tmp_path / "checkpoint")], tmp_path / "run.log") as query:
        query.wait_for('"query": "loading"', STARTED)
        send_signal(children(query.process_id), signal.SIGHUP)
        until(lambda: scrape(page), STARTED, query)


def test_a_killed_jvm_is_an_error_of_one_line(tmp_path: Path) -> None:
    (page,) = free_pages(1)
    with EmbeddedBroker() as broker:
        command = ["run", "--bootstrap", broker.internal, "--checkpoint", str(tmp_path / "checkpoint")]
        command += ["--metrics-address", page, "--buckets", "2"]
        with Child(command, tmp_path / "run.log") as query:
            query.wait_for('"query": "started"', STARTED)
            (application,) = children(query.process_id)
            (jvm,) = children(application)
            os.kill(jvm, signal.SIGKILL)
            query.wait(ENDED)
        output = query.log.read_text()
    (line,) = [line for line in output.splitlines() if line.startswith("kipwatch: ")]
    assert line.startswith("kipwatch: the query stopped: Spark is gone")
    assert "py4j" not in output


@pytest.mark.long
def test_a_query_stopped_within_a_batch_ends_with_the_error_of_that_batch(tmp_path: Path) -> None:
    """A StackOverflowError while Spark reads the error would hide it behind a thousand lines of trace."""
    started, taken = tmp_path / "started", list[int]()
    with EmbeddedBroker() as broker:
        create_topics(broker.internal, "frames", "findings", ONE_PARTITION)
        publish_blocks(broker.internal, "frames", Traffic(default_schemas(), 4).opening())
        configuration = Configuration(
            bootstrap=broker.internal,
            frames_topic="frames",
            buckets=2,
            checkpoint=str(tmp_path / "checkpoint"),
        )
        with spark_session(configuration) as session:
            reports = reports_of(session, configuration, SlowProcessor(started))
            query = start_query(reports, configuration, lambda batch, _: taken.append(batch))
            deadline = time.monotonic() + STARTED
            while not started.exists():
                assert query.isActive and time.monotonic() < deadline, query.exception()
                time.sleep(0.1)
            query.stop()
            assert not query.isActive
            assert "BatchError: An error occurred" in str(query.exception())
    assert taken == []
