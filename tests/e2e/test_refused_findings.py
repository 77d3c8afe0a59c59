"""A topic that takes no finding ends no query: what it refuses is counted and logged."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from streaming.broker.embedded import EmbeddedBroker
from streaming.demo.progress import scrape
from streaming.demo.road import Child
from streaming.settings.configuration import Configuration
from tests.e2e.feeding import feed_capture
from tests.e2e.free_pages import free_pages
from tests.streaming.captures import violating, write_capture

pytestmark = [pytest.mark.jvm, pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(300)]

PATIENCE = 150.0
REFUSED = "kipwatch_findings_refused_total"


def test_findings_that_kafka_refuses_are_counted_and_the_query_goes_on(tmp_path: Path) -> None:
    (page_at,), names = free_pages(1), Configuration()
    capture = write_capture(tmp_path / "violating.pcap", violating())
    with EmbeddedBroker() as broker:
        topics = [NewTopic(names.frames_topic, 2), NewTopic(names.findings_topic, 1)]
        topics[1].config = {"max.message.bytes": "200"}
        admin = AdminClient({"bootstrap.servers": broker.internal})
        for created in admin.create_topics(topics).values():
            created.result(30)
        kafka = ["--bootstrap", broker.internal]
        run = ["run", *kafka, "--metrics-address", page_at, "--buckets", "4"]
        run += ["--checkpoint", str(tmp_path / "checkpoint")]
        with Child(run, tmp_path / "run.log") as query:
            query.wait_for('"query": "started"', PATIENCE)
            for cluster in ("one", "two"):
                before = refused(page_at)
                feed_capture(capture, tmp_path / f"{cluster}.log", *kafka, "--cluster", cluster)
                deadline = time.monotonic() + PATIENCE
                while refused(page_at) < before + 2 and time.monotonic() < deadline:
                    query.check_running()
                    time.sleep(0.5)
                assert refused(page_at) >= before + 2
        assert "finding-refused" in query.log.read_text()


def refused(page_at: str) -> float:
    page = scrape(page_at)
    return page.total(REFUSED) if page else 0.0
