"""A Spark cluster: a master and two workers whose Python has none of our packages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from decoders.schema.registry import default_schemas
from streaming.bench.publishing import publish_blocks
from streaming.bench.traffic import Traffic
from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.ports import free_ports
from streaming.broker.topics import create_topics
from streaming.demo.child import Child
from streaming.demo.page import scrape
from streaming.query.session import WORKER_PYTHON
from streaming.query.worker_archive import FOLDER
from tests.e2e.standalone import daemon, lacks_our_packages, start, wait_for

CONNECTIONS = 50
JUDGED = 200.0

pytestmark = [
    pytest.mark.jvm,
    pytest.mark.e2e,
    pytest.mark.timeout(400),
    pytest.mark.skipif(not lacks_our_packages(), reason=f"no {WORKER_PYTHON} without our packages"),
]


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """A standalone master with two workers of one core each; yields its address."""
    port, *pages = free_ports(4)
    address = f"spark://127.0.0.1:{port}"
    flags = ["--host", "127.0.0.1"]
    own = ["SPARK_LOCAL_IP=127.0.0.1"]
    with ExitStack() as stack:
        listening = ["--port", str(port), "--webui-port", str(pages[0])]
        master = daemon("master.Master", *flags, *listening, environment=own)
        start(stack, tmp_path / "master.log", master)
        for number in (1, 2):
            folders = ["--work-dir", str(tmp_path / f"worker-{number}"), "--webui-port", str(pages[number])]
            size = ["--cores", "1", "--memory", "1g"]
            worker = daemon("worker.Worker", *flags, *size, *folders, address, environment=own)
            start(stack, tmp_path / f"worker-{number}.log", worker)
        wait_for(tmp_path / "worker-1.log", "Successfully registered")
        wait_for(tmp_path / "worker-2.log", "Successfully registered")
        yield address


def test_frames_are_judged_on_workers_that_share_no_environment(master: str, tmp_path: Path) -> None:
    page_port, driver_port = free_ports(2)
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.port": str(driver_port),
        "spark.executor.memory": "600m",
        "spark.executor.cores": "1",
    }
    configuration = tmp_path / "kipwatch.toml"
    lines = [f"{json.dumps(name)} = {json.dumps(value)}" for name, value in settings.items()]
    configuration.write_text("\n".join(["buckets = 8", f'master = "{master}"', "[spark]", *lines]))
    with EmbeddedBroker() as broker:
        create_topics(broker.internal, "kipwatch.frames", "kipwatch.findings")
        traffic = Traffic(default_schemas(), CONNECTIONS)
        publish_blocks(broker.internal, "kipwatch.frames", traffic.opening())
        publish_blocks(broker.internal, "kipwatch.frames", traffic.round(0))
        command = ["run", "--config", str(configuration), "--bootstrap", broker.internal]
        command += [
            "--metrics-address",
            f"127.0.0.1:{page_port}",
            "--checkpoint",
            str(tmp_path / "checkpoint"),
        ]
        with Child(command, tmp_path / "run.log") as query:
            query.wait_for('"frames": ', JUDGED)
            page = scrape(f"127.0.0.1:{page_port}")
        assert '"query": "stopped"' in query.log.read_text()
    assert page is not None
    assert page.total("kipwatch_frames_total") == CONNECTIONS * 16
    assert page.total("kipwatch_open_connections") == CONNECTIONS
    unpacked = [next((tmp_path / f"worker-{number}").rglob(FOLDER), None) for number in (1, 2)]
    assert all(unpacked)
