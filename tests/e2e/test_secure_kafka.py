"""Feeder and query with Kafka's security: each mechanism in both clients, and ACLs for each process."""

from __future__ import annotations

import json
import os
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
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
from tests.e2e.archive_rows import rows_of
from tests.e2e.feeding import feed_capture
from tests.e2e.pages import free_pages
from tests.streaming.captures import write_capture
from tests.streaming.commands.test_principals import NAME, SECRET, offending
from tests.streaming.secure_broker import PASSWORD, PASSWORD_VARIABLE, USER, SecureBroker

pytestmark = [pytest.mark.jvm, pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(600)]

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


def test_the_road_needs_no_more_rights_than_documented_and_names_who_logs_in_only_where_asked(
    broker: SecureBroker, tmp_path: Path
) -> None:
    """Feeder and query log in as users of their own; neither may create topics. One feeder keeps no names of
    its clients' logins, and after it another one does.
    """
    create_topics(broker.internal, FRAMES, FINDINGS)
    broker.grant(USER, (ResourceType.TOPIC, FRAMES, AclOperation.WRITE))
    broker.grant("query", (ResourceType.TOPIC, FRAMES, AclOperation.READ))
    broker.grant("query", (ResourceType.TOPIC, FINDINGS, AclOperation.WRITE))
    feeder = written(tmp_path / "feeder.toml", broker.token_login(USER))
    query = written(tmp_path / "query.toml", broker.login("query", "SCRAM-SHA-512"))
    (page,) = free_pages(1)
    kafka, kept = ["--bootstrap", broker.sasl], tmp_path / "kept"
    run = ["run", *kafka, "--config", query, "--metrics-address", page, "--buckets", "4"]
    run += ["--checkpoint", str(kept / "checkpoint"), "--archive", str(kept / "archive")]
    topic, log = FindingsTopic(broker.internal, FINDINGS), kept / "log"
    kept.mkdir()

    def feed_and_judge(client: str, shown: str, *flags: str) -> None:
        """Publish what a client offends, and wait until topic and archive show something of it."""
        capture = write_capture(tmp_path / f"{client}.pcap", offending(client=f"{client}:40000"))
        feed_capture(capture, log, *kafka, "--config", feeder, *flags)
        deadline = time.monotonic() + PATIENCE
        while shown not in str(topic.findings) or shown not in str(rows_of(kept / "archive", "findings")):
            running.check_running()
            assert time.monotonic() < deadline, running.log.read_text()
            topic.poll(1.0)

    def contents() -> dict[str, list[bytes]]:
        """What is kept where."""
        frames = latest_slice(broker.internal, FRAMES, 10_000).frames
        return {
            "frames": [record.frame for *_, record in frames],
            "findings": [msgspec.json.encode(finding) for finding in topic.findings.values()],
            "latest findings": [fetched(page, "/")],
            "metrics": [fetched(page, "/metrics")],
            "files": [*files_in(kept)],
            "logs": [path.read_bytes() for path in (log, running.log)],
        }

    with Child(run, kept / "run.log") as running:
        feed_and_judge("10.0.0.1", "10.0.0.1")
        assert len(contents()["frames"]) > 3, log.read_text()
        assert holding(contents(), NAME) == set()
        feed_and_judge("10.0.0.2", NAME, "--keep", "principal")
        assert holding(contents(), NAME) - {"latest findings"} == {"frames", "findings", "files"}
        for secret in (SECRET, PASSWORD):
            assert holding(contents(), secret) == set()
    topic.close()


def holding(contents: Mapping[str, Iterable[bytes]], text: str) -> set[str]:
    """Where a text is, as it is or in hexadecimal."""
    forms = text.encode(), text.encode().hex().encode()
    return {place for place, kept in contents.items() if any(form in each for each in kept for form in forms)}


def files_in(folder: Path) -> Iterator[bytes]:
    """The contents of all files that Spark does not remove meanwhile."""
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                yield Path(parent, name).read_bytes()


def fetched(page: str, path: str) -> bytes:
    with urllib.request.urlopen(f"http://{page}{path}", timeout=30) as response:
        content: bytes = response.read()
        return content


def written(path: Path, table: Mapping[str, Setting]) -> str:
    lines = "".join(f"{json.dumps(name)} = {json.dumps(value)}\n" for name, value in table.items())
    path.write_text(f"[kafka]\n{lines}")
    return str(path)
