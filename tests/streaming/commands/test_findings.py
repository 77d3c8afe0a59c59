"""`kipwatch findings`: the present findings of the topic, and new ones."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from expectations.judging.finding import Finding
from streaming.broker import topics
from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.ports import free_ports
from streaming.broker.topics import create_topics
from streaming.demo.road import Child
from streaming.query.topic_sinks import FindingsSink
from tests.exchange import ID_A, ID_B, Exchange
from tests.streaming.commands.ran import Kipwatch

TOPIC = "findings-of-mine"
SHOWN = 60.0


def found(number: int) -> Finding:
    exchange = Exchange()
    exchange.negotiate(client_id="app")
    exchange.request("Metadata", 14, client_id="app", instance_id=ID_A)
    exchange.request("Metadata", 14, instance_id=ID_B)
    (finding,) = (each for each in exchange.judge().findings if each.rule == "kip1313/instance-id-changed")
    return msgspec.structs.replace(finding, id=f"{number:024x}", message=f"finding number {number}")


@pytest.mark.jvm
def test_findings_are_shown_once_as_they_come(tmp_path: Path, kipwatch: Kipwatch) -> None:
    with EmbeddedBroker() as broker:
        missing = kipwatch("findings", "--bootstrap", broker.internal, "--findings-topic", TOPIC)
        assert f"cannot read the topic {TOPIC} at {broker.internal}" in missing.error_line
        assert "`kipwatch run` creates it" in missing.error_line
        create_topics(broker.internal, "frames", TOPIC)
        sink = FindingsSink(broker.internal, TOPIC, {})
        sink.write([found(1)])
        command = ["findings", "--bootstrap", broker.internal, "--findings-topic", TOPIC]
        with (
            Child(command, tmp_path / "lines.log") as lines,
            Child([*command, "--json"], tmp_path / "documents.log") as documents,
        ):
            for number in (1, 2):
                lines.wait_for(f"finding number {number}", SHOWN)
                documents.wait_for(f"finding number {number}", SHOWN)
                sink.write([found(1), found(2)])
    shown = lines.log.read_text().splitlines()
    assert len(shown) == 2
    assert shown[0].startswith("violation   kip1313/instance-id-changed")
    read = [json.loads(line) for line in documents.log.read_text().splitlines()]
    assert [document["message"] for document in read] == ["finding number 1", "finding number 2"]


def test_a_kafka_that_does_not_respond_is_named(kipwatch: Kipwatch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "RESPONSE_SECONDS", 0.5)
    (port,) = free_ports(1)
    line = kipwatch("findings", "--bootstrap", f"127.0.0.1:{port}").error_line
    address = f"127.0.0.1:{port}"
    assert line == (
        f"cannot ask Kafka at {address}: cannot connect to {address} (Connection refused): "
        "correct `bootstrap`, or start the broker"
    )


def test_a_table_of_kafka_that_is_refused_is_one_line(kipwatch: Kipwatch, tmp_path: Path) -> None:
    configuration = tmp_path / "kipwatch.toml"
    configuration.write_text('[kafka]\n"no.such" = true')
    line = kipwatch("findings", "--config", configuration).error_line
    assert line.startswith("the table [kafka] is invalid")
