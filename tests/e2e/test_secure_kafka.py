"""Feeder and query with Kafka's security: each mechanism in both clients, and ACLs for each process."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation, ResourceType
from pyspark.sql import SparkSession

from streaming.audit.frames_topic import latest_slice
from streaming.broker.topics import FindingsTopic, create_topics
from streaming.demo.road import Child
from streaming.query.session import spark_session
from streaming.settings.configuration import Configuration
from streaming.settings.kafka_client import Setting, jvm_options, librdkafka_settings
from tests.e2e.feeding import feed_capture
from tests.e2e.free_pages import free_pages
from tests.streaming.captures import violating, write_capture
from tests.streaming.secure_broker import PASSWORD, PASSWORD_VARIABLE, USER, SecureBroker

pytestmark = [pytest.mark.jvm, pytest.mark.e2e, pytest.mark.timeout(600)]

FRAMES, FINDINGS, OTHER = "kipwatch.frames", "kipwatch.findings", "other"
PATIENCE = 200.0

Login = Callable[[SecureBroker], tuple[str, dict[str, Setting]]]
LOGINS: dict[str, Login] = {
    "PLAIN": lambda broker: (broker.sasl, broker.login(USER, "PLAIN")),
    "SCRAM-SHA-256": lambda broker: (broker.sasl, broker.login(USER, "SCRAM-SHA-256")),
    "SCRAM-SHA-512": lambda broker: (broker.sasl, broker.login(USER, "SCRAM-SHA-512")),
    "OAUTHBEARER": lambda broker: (broker.sasl, broker.token_login(USER)),
    "certificate": lambda broker: (broker.mutual, broker.certified()),
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    with SecureBroker(tmp_path_factory.mktemp("secure")) as running:
        running.add_scram_users()
        create_topics(running.internal, OTHER, "other-findings")
        running.grant(USER, (ResourceType.TOPIC, OTHER, AclOperation.ALL))
        yield running


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    with spark_session(Configuration()) as running:
        yield running


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, PASSWORD)


@pytest.mark.parametrize("name", LOGINS)
def test_both_clients_log_in(broker: SecureBroker, session: SparkSession, name: str) -> None:
    """What one client wrote the other reads, by one table [kafka]."""
    bootstrap, table = LOGINS[name](broker)
    table |= {"linger.ms": 1, "compression.type": "zstd"}
    producer = Producer(librdkafka_settings(bootstrap, table))
    producer.produce(OTHER, key=name)
    assert producer.flush(30) == 0
    rows = session.read.format("kafka").options(**jvm_options(bootstrap, table))
    keys = rows.option("subscribe", OTHER).load().select("key").collect()
    assert name.encode() in [bytes(row.key) for row in keys]


def test_the_road_needs_no_more_rights_than_documented(broker: SecureBroker, tmp_path: Path) -> None:
    """Feeder and query log in as users of their own; neither may create topics."""
    create_topics(broker.internal, FRAMES, FINDINGS)
    broker.grant(USER, (ResourceType.TOPIC, FRAMES, AclOperation.WRITE))
    broker.grant("query", (ResourceType.TOPIC, FRAMES, AclOperation.READ))
    broker.grant("query", (ResourceType.TOPIC, FINDINGS, AclOperation.WRITE))
    feeder = written(tmp_path / "feeder.toml", broker.token_login(USER))
    query = written(tmp_path / "query.toml", broker.login("query", "SCRAM-SHA-512"))
    (page,) = free_pages(1)
    kafka = ["--bootstrap", broker.sasl]
    run = ["run", *kafka, "--config", query, "--metrics-address", page, "--buckets", "4"]
    run += ["--checkpoint", str(tmp_path / "checkpoint")]
    capture, log = write_capture(tmp_path / "capture.pcap", violating()), tmp_path / "feed.log"
    feed_capture(capture, log, *kafka, "--config", feeder)
    assert len(latest_slice(broker.internal, FRAMES, 100).frames) > 3, log.read_text()
    topic = FindingsTopic(broker.internal, FINDINGS)
    with Child(run, tmp_path / "run.log") as running:
        deadline = time.monotonic() + PATIENCE
        while len(topic.findings) < 2:
            running.check_running()
            assert time.monotonic() < deadline, running.log.read_text()
            topic.poll(1.0)
    topic.close()
    assert PASSWORD not in running.log.read_text() + log.read_text()


def written(path: Path, table: Mapping[str, Setting]) -> str:
    lines = "".join(f"{json.dumps(name)} = {json.dumps(value)}\n" for name, value in table.items())
    path.write_text(f"[kafka]\n{lines}")
    return str(path)
