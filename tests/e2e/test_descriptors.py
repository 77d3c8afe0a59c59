"""A query that runs for months leaves nothing open behind its batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from decoders.schema.registry import default_schemas
from streaming.bench.traffic import Traffic, publish_blocks
from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.topics import create_topics
from streaming.demo.progress import scrape
from streaming.demo.road import Child
from tests.e2e.pages import free_pages
from tests.e2e.process_tree import descriptors, tree
from tests.waiting import until

pytestmark = [pytest.mark.jvm, pytest.mark.e2e, pytest.mark.timeout(300)]

STARTED, JUDGED = 120.0, 60.0
SETTLED, WATCHED = 5, 15
"""Batches until all that is opened once is open, and until what is open is counted again."""


def test_a_batch_leaves_no_descriptor_open(tmp_path: Path) -> None:
    """Spark 4.2.0 left a socket open for each task with state, four a batch: all were taken within hours."""
    (page,) = free_pages(1)
    with EmbeddedBroker() as broker:
        create_topics(broker.internal, "frames", "kipwatch.findings")
        publish_blocks(broker.internal, "frames", Traffic(default_schemas(), 10).opening())
        command = ["run", "--bootstrap", broker.internal, "--frames-topic", "frames", "--buckets", "4"]
        command += ["--metrics-address", page, "--checkpoint", str(tmp_path / "checkpoint")]
        with Child(command, tmp_path / "run.log") as query:
            query.wait_for('"frames": ', STARTED)

            def batches() -> float:
                served = scrape(page)
                return served.total("kipwatch_batch_duration_seconds_count") if served else 0.0

            until(lambda: batches() >= SETTLED, JUDGED, query)
            before, begun = {each: descriptors(each) for each in tree(query.process_id)}, batches()
            until(lambda: batches() >= begun + WATCHED, JUDGED, query)
            # A process that validates comes and goes.
            opened = sum(
                descriptors(each) - before[each] for each in tree(query.process_id) if each in before
            )
    assert opened < WATCHED
