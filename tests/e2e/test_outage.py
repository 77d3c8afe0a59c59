"""A query that waits for Kafka is not reported as hanging, and one that hangs is."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from decoders.schema.registry import default_schemas
from streaming.bench.traffic import Traffic, publish_blocks
from streaming.broker.topics import create_topics
from streaming.demo.road import Child
from streaming.query.progress import STALLED_AFTER
from tests.e2e.pages import free_pages, passes
from tests.e2e.process_tree import frozen, jvms
from tests.e2e.restarting_broker import RestartingBroker
from tests.waiting import until

pytestmark = [pytest.mark.jvm, pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(600)]

FRAMES, FINDINGS = "kipwatch.frames", "kipwatch.findings"
STARTED, JUDGED = 240.0, 120.0
OUTAGE = STALLED_AFTER + 20


def stays_healthy(address: str, seconds: float) -> bool:
    """Ask once a second for some time, or until it is not healthy."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not passes(address, "healthz"):
            return False
        time.sleep(1)
    return True


def test_an_outage_of_kafka_is_healthy_and_a_query_that_hangs_is_not(tmp_path: Path) -> None:
    (address,), traffic = free_pages(1), Traffic(default_schemas(), 10)
    with RestartingBroker() as broker:
        create_topics(broker.internal, FRAMES, FINDINGS)
        publish_blocks(broker.internal, FRAMES, traffic.opening())
        command = ["run", "--bootstrap", broker.internal, "--metrics-address", address, "--buckets", "4"]
        with Child([*command, "--checkpoint", str(tmp_path / "checkpoint")], tmp_path / "run.log") as query:
            query.wait_for('"frames": ', STARTED)
            with broker.frozen():
                assert stays_healthy(address, OUTAGE)
            query.wait_for('"query": "kafka-back"', JUDGED)
            publish_blocks(broker.internal, FRAMES, traffic.round(0))
            until(lambda: query.log.read_text().count('"frames": ') > 1, JUDGED, query)
            with frozen(jvms(query.process_id)):
                assert not stays_healthy(address, OUTAGE)
    assert '"query": "stopped"' in query.log.read_text()
