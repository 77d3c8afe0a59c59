"""`run --archive` beside a real broker, killed and restarted: each request is in the tables once."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from decoders.frame.record import Kind
from decoders.schema.registry import default_schemas
from decoders.wire.columnar.frames import FrameBatch
from streaming.bench.traffic import Traffic, publish_blocks
from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.topics import create_topics
from streaming.demo.road import Child
from streaming.settings.configuration import FramesTopicSettings, Topics
from tests.e2e.archive_rows import rows_of
from tests.e2e.pages import free_pages
from tests.e2e.process_tree import children
from tests.waiting import until

pytestmark = [pytest.mark.jvm, pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(3_600)]
JUDGED = 300.0
"""Seconds from the start of a query on a busy machine until it has judged what is published."""
KILLS = 10
"""How often the query is killed and started again."""
CONNECTIONS = 40


def test_an_archive_of_a_killed_query_holds_each_request_once(tmp_path: Path) -> None:
    traffic, archive, sent = Traffic(default_schemas(), CONNECTIONS), tmp_path / "archive", 0
    parts: list[list[FrameBatch]] = [list(traffic.opening())]
    parts += [list(traffic.round(number)) for number in range(1, KILLS)]
    with EmbeddedBroker() as broker:
        create_topics(broker.internal, "kipwatch.frames", "kipwatch.findings", ONE_PARTITION)
        for number, part in enumerate(parts):
            publish_blocks(broker.internal, "kipwatch.frames", part)
            sent += requests(part)
            command = ["run", "--bootstrap", broker.internal, "--checkpoint", str(tmp_path / "checkpoint")]
            command += ["--metrics-address", free_pages(1)[0], "--buckets", "2"]
            command += ["--archive", str(archive)]
            with Child(command, tmp_path / f"run-{number}.log") as query:
                until(lambda: archived(archive) >= sent, JUDGED, query, every=0.05)  # noqa: B023
                # At once: the batch that wrote this may not be committed, and is then judged again.
                (process,) = children(query.process_id)
                os.kill(process, signal.SIGKILL)
            assert archived(archive) == sent
    by_software = Counter[str]()
    for row in usage(archive):
        by_software[str(row["client_software_name"])] += int(str(row["requests"]))
    assert sum(by_software.values()) == sent
    opened = {row["connection"] for row in rows_of(archive, "connections")}
    assert len(opened) == CONNECTIONS
    brokers = rows_of(archive, "brokers")
    assert brokers and all(row["ranges_id"] for row in brokers)
    assert "None" not in by_software


ONE_PARTITION = Topics(frames=FramesTopicSettings(partitions=1))


def requests(batches: list[FrameBatch]) -> int:
    return sum(int((batch.frames.kinds == Kind.REQUEST).sum()) for batch in batches)


def usage(folder: Path) -> list[dict[str, object]]:
    return rows_of(folder, "usage")


def archived(folder: Path) -> int:
    return sum(int(str(row["requests"])) for row in usage(folder))
