"""A topic that takes no finding ends no query: what it refuses is counted and logged.

The log is JSON lines and nothing else, whatever Spark and its workers print.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from streaming.broker.embedded import EmbeddedBroker
from streaming.demo.progress import scrape
from streaming.demo.road import Child
from streaming.settings.configuration import Configuration
from tests.e2e.feeding import feed_capture
from tests.e2e.pages import free_pages
from tests.streaming.captures import violating, write_capture
from tests.waiting import until

pytestmark = [pytest.mark.jvm, pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(600)]

PATIENCE = 150.0
REFUSED = "kipwatch_findings_refused_total"


@pytest.fixture(scope="module", params=["info", "debug"])
def log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The log of a query whose findings are refused; it gets standard error, too, as in a container."""
    folder, (page_at,), names = tmp_path_factory.mktemp(request.param), free_pages(1), Configuration()
    capture = write_capture(folder / "violating.pcap", violating())
    with EmbeddedBroker() as broker:
        topics = [NewTopic(names.frames_topic, 2), NewTopic(names.findings_topic, 1)]
        topics[1].config = {"max.message.bytes": "200"}
        admin = AdminClient({"bootstrap.servers": broker.internal})
        for created in admin.create_topics(topics).values():
            created.result(30)
        kafka = ["--bootstrap", broker.internal]
        run = ["run", *kafka, "--metrics-address", page_at, "--buckets", "4", "--log-level", request.param]
        run += ["--checkpoint", str(folder / "checkpoint")]
        with Child(run, folder / "run.log") as query:
            query.wait_for('"query": "started"', PATIENCE)
            for cluster in ("one", "two"):
                before = refused(page_at)
                feed_capture(capture, folder / f"{cluster}.log", *kafka, "--cluster", cluster)
                until(lambda: refused(page_at) >= before + 2, PATIENCE, query)  # noqa: B023 - called at once
        yield query.log


def test_findings_that_kafka_refuses_are_counted_and_the_query_goes_on(log: Path) -> None:
    assert "finding-refused" in log.read_text()


def test_every_line_is_json_with_time_level_and_event(log: Path) -> None:
    lines: list[dict[str, Any]] = [json.loads(line) for line in log.read_text().splitlines()]
    assert all({"time", "level", "event"} <= line.keys() for line in lines)
    events = {line["query"] for line in lines if "query" in line}
    assert {"loading", "starting-spark", "started", "batch", "stopped"} <= events
    assert any("jvm" in line for line in lines) is ("debug" in log.parent.name)


def refused(page_at: str) -> float:
    page = scrape(page_at)
    return page.total(REFUSED) if page else 0.0
