"""A query that waits for Kafka is not reported as hanging, and one that hangs is."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from decoders.schema.registry import default_schemas
from streaming.bench.traffic import Traffic, publish_blocks
from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.topics import create_topics
from streaming.demo.road import Child
from streaming.query.progress import STALLED_AFTER
from tests.e2e.free_pages import free_pages
from tests.e2e.probe import passes
from tests.e2e.process_tree import jvms

pytestmark = [pytest.mark.jvm, pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(600)]

FRAMES, FINDINGS = "kipwatch.frames", "kipwatch.findings"
STARTED, JUDGED = 240.0, 120.0
OUTAGE = STALLED_AFTER + 20


class FreezableBroker(EmbeddedBroker):
    """A broker whose process can be stopped and continued: its port is open and nothing answers."""

    def _start(self) -> subprocess.Popen[bytes]:
        self._process = super()._start()
        return self._process

    @contextmanager
    def frozen(self) -> Iterator[None]:
        with frozen_jvms(self._process.pid):
            yield


@contextmanager
def frozen_jvms(root: int) -> Iterator[None]:
    """Stop every JVM below a process, and continue it."""
    frozen = jvms(root)
    assert frozen
    for process in frozen:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in frozen:
            os.kill(process, signal.SIGCONT)


def stays_healthy(address: str, seconds: float) -> bool:
    """Ask once a second for some time, or until it is not healthy."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not passes(address, "healthz"):
            return False
        time.sleep(1)
    return True


def await_batches(query: Child, count: int) -> None:
    deadline = time.monotonic() + JUDGED
    while query.log.read_text().count('"frames": ') < count:
        query.check_running()
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_an_outage_of_kafka_is_healthy_and_a_query_that_hangs_is_not(tmp_path: Path) -> None:
    (address,), traffic = free_pages(1), Traffic(default_schemas(), 10)
    with FreezableBroker() as broker:
        create_topics(broker.internal, FRAMES, FINDINGS)
        publish_blocks(broker.internal, FRAMES, traffic.opening())
        command = ["run", "--bootstrap", broker.internal, "--metrics-address", address, "--buckets", "4"]
        with Child([*command, "--checkpoint", str(tmp_path / "checkpoint")], tmp_path / "run.log") as query:
            query.wait_for('"frames": ', STARTED)
            with broker.frozen():
                assert stays_healthy(address, OUTAGE)
            query.wait_for('"query": "kafka-back"', JUDGED)
            publish_blocks(broker.internal, FRAMES, traffic.round(0))
            await_batches(query, 2)
            with frozen_jvms(query.process_id):
                assert not stays_healthy(address, OUTAGE)
    assert '"query": "stopped"' in query.log.read_text()
