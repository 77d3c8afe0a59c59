"""The output of a running query is JSON lines and nothing else, whatever Spark and its workers print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from decoders.schema.registry import default_schemas
from streaming.bench.traffic import Traffic, publish_blocks
from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.topics import create_topics
from streaming.demo.road import Child
from tests.e2e.free_pages import free_pages

pytestmark = [pytest.mark.jvm, pytest.mark.e2e, pytest.mark.timeout(600)]

JUDGED = 240.0


@pytest.mark.parametrize("level", [pytest.param("info", marks=pytest.mark.long), "debug"])
def test_every_line_is_json_with_time_level_and_event(tmp_path: Path, level: str) -> None:
    """Standard output and standard error go to one file, as in a container."""
    (page,) = free_pages(1)
    with EmbeddedBroker() as broker:
        create_topics(broker.internal, "kipwatch.frames", "kipwatch.findings")
        publish_blocks(broker.internal, "kipwatch.frames", Traffic(default_schemas(), 10).opening())
        command = ["run", "--bootstrap", broker.internal, "--metrics-address", page]
        command += ["--buckets", "4", "--checkpoint", str(tmp_path / "checkpoint"), "--log-level", level]
        with Child(command, tmp_path / "run.log") as query:
            query.wait_for('"frames": ', JUDGED)
    lines: list[dict[str, Any]] = [json.loads(line) for line in query.log.read_text().splitlines()]
    assert all({"time", "level", "event"} <= line.keys() for line in lines)
    assert {"loading", "starting-spark", "started", "batch", "stopped"} <= {
        line["query"] for line in lines if "query" in line
    }
    spark = [line for line in lines if "jvm" in line]
    assert bool(spark) is (level == "debug")


def test_a_jvm_that_does_not_start_says_why_in_one_line(tmp_path: Path) -> None:
    config = tmp_path / "kipwatch.toml"
    config.write_text('[spark]\n"spark.driver.memory" = "much"\n')
    with Child(["run", "--dry-run", "--config", str(config)], tmp_path / "run.log") as query:
        query.wait(JUDGED)
    (error,) = [line for line in query.log.read_text().splitlines() if line.startswith("kipwatch: ")]
    assert "Spark's JVM did not start: " in error and "much" in error
