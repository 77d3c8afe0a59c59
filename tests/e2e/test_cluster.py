"""A Spark cluster: a master and two workers whose Python has none of our packages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from decoders.schema.registry import default_schemas
from streaming.bench.traffic import Traffic, publish_blocks
from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.topics import create_topics
from streaming.demo.progress import scrape
from streaming.demo.road import Child
from streaming.query.session import ARCHIVE_FOLDER, WORKER_PYTHON
from tests.e2e.pages import free_pages
from tests.e2e.standalone import cluster, lacks_our_packages, spark_settings

CONNECTIONS = 50
JUDGED = 200.0

pytestmark = [
    pytest.mark.jvm,
    pytest.mark.e2e,
    pytest.mark.long,
    pytest.mark.timeout(400),
    pytest.mark.skipif(not lacks_our_packages(), reason=f"no {WORKER_PYTHON} without our packages"),
]


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """A standalone master with two workers of one core each; yields its address."""
    with cluster(tmp_path) as address:
        yield address


def test_frames_are_judged_on_workers_that_share_no_environment(master: str, tmp_path: Path) -> None:
    (page_at,) = free_pages(1)
    configuration = tmp_path / "kipwatch.toml"
    configuration.write_text(f'buckets = 8\nmaster = "{master}"\n{spark_settings()}')
    with EmbeddedBroker() as broker:
        create_topics(broker.internal, "kipwatch.frames", "kipwatch.findings")
        traffic = Traffic(default_schemas(), CONNECTIONS)
        publish_blocks(broker.internal, "kipwatch.frames", traffic.opening())
        publish_blocks(broker.internal, "kipwatch.frames", traffic.round(0))
        command = ["run", "--config", str(configuration), "--bootstrap", broker.internal]
        command += ["--metrics-address", page_at, "--checkpoint", str(tmp_path / "checkpoint")]
        with Child(command, tmp_path / "run.log") as query:
            query.wait_for('"frames": ', JUDGED)
            page = scrape(page_at)
        assert '"query": "stopped"' in query.log.read_text()
    assert page is not None
    assert page.total("kipwatch_frames_total") == CONNECTIONS * 16
    assert page.total("kipwatch_open_connections") == CONNECTIONS
    unpacked = [next((tmp_path / f"worker-{number}").rglob(ARCHIVE_FOLDER), None) for number in (1, 2)]
    assert all(unpacked)
