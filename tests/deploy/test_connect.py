"""The example for a file in a real worker of Kafka Connect; and the converters of those for stores."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from decoders.schema.registry import default_schemas
from expectations.judging.finding import Finding
from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.topics import create_topics
from streaming.check.examination import examine
from streaming.query.topic_sinks import FindingsSink
from streaming.settings.configuration import Configuration
from tests.captures import planted
from tests.deploy.connect_worker import ConnectWorker
from tests.repository.tree import ROOT
from tests.waiting import until

WRITTEN = 120.0
TOPIC = Configuration().findings_topic

pytestmark = [pytest.mark.long, pytest.mark.jvm, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def findings() -> list[Finding]:
    return examine(planted.CAPTURE, default_schemas()).findings


@pytest.fixture(scope="module")
def connect(findings: list[Finding], tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectWorker]:
    """A worker beside a broker whose topic has findings."""
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker())
        create_topics(broker.internal, "kipwatch.frames", TOPIC)
        FindingsSink(broker.internal, TOPIC, {}).write(findings)
        yield ConnectWorker(stack, tmp_path_factory.mktemp("connect"), broker.internal)


def example(name: str) -> dict[str, Any]:
    """A committed connector."""
    connector: dict[str, Any] = json.loads((ROOT / f"deploy/connect/{name}.json").read_text())
    return connector


def lines_of(connect: ConnectWorker, connector: dict[str, Any], number: int, file: Path) -> list[str]:
    """Wait until a connector has written enough lines into a file, and return them."""
    connect.create(connector | {"config": connector["config"] | {"file": str(file)}})
    until(lambda: file.exists() and len(file.read_text().splitlines()) >= number, WRITTEN)
    until(lambda: connect.states(connector["name"]) == ["RUNNING", "RUNNING"], WRITTEN)
    return file.read_text().splitlines()


def test_findings_are_written_into_a_file(
    connect: ConnectWorker, findings: list[Finding], tmp_path: Path
) -> None:
    lines = lines_of(connect, example("file"), len(findings), tmp_path / "findings.jsonl")
    written = [msgspec.json.decode(line, type=Finding) for line in lines]
    assert {each.id: each for each in written} == {each.id: each for each in findings}


@pytest.mark.parametrize("name", ["s3", "opensearch"])
def test_the_converters_of_a_store_read_every_finding(
    connect: ConnectWorker, findings: list[Finding], tmp_path: Path, name: str
) -> None:
    """It is read into structures with names. The connectors themselves are in no package registry."""
    kept = {key: value for key, value in example(name)["config"].items() if "converter" in key}
    config = example("file")["config"] | kept
    lines = lines_of(connect, {"name": name, "config": config}, len(findings), tmp_path / name)
    # As Java prints a map.
    assert all(line.startswith("{") and "rule=" in line for line in lines)
