"""Topics are created as configured unless they exist, by the query and by a feeder.

A feeder without a frames topic creates it at once, or names the error at once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient, ConfigResource, NewTopic, ResourceType

from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.topics import (
    FindingsTopic,
    FramesTopic,
    create_missing,
    create_topics,
    quarantine_topic,
)
from streaming.settings.configuration import FindingsTopicSettings, FramesTopicSettings, Topics
from streaming.user_error import UserError
from tests.streaming.captures import violating
from tests.streaming.commands.ran import Ran, run_process
from tests.streaming.feeder.test_secure_kafka import CAPTURE, PORT, configured
from tests.streaming.secure_broker import PASSWORD, PASSWORD_VARIABLE, USER, SecureBroker
from tests.waiting import until

TOPICS = Topics(
    frames=FramesTopicSettings(partitions=3, retention_hours=6, retention_mebibytes=500),
    findings=FindingsTopicSettings(partitions=2, retention_hours=48, replication_factor=1),
)
PATIENCE = 30.0
AT_ONCE = 15.0
"""Seconds for a whole process on a busy machine; an unknown topic is refused after 30 by librdkafka."""


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    with SecureBroker(tmp_path_factory.mktemp("secure")) as running:
        yield running


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, PASSWORD)


def partitions(broker: EmbeddedBroker) -> dict[str, int]:
    topics = AdminClient({"bootstrap.servers": broker.internal}).list_topics(timeout=10).topics
    return {name: len(topic.partitions) for name, topic in topics.items()}


def setting(broker: EmbeddedBroker, topic: str, name: str) -> str:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": broker.internal})
    (described,) = admin.describe_configs([resource], request_timeout=10).values()
    return str(described.result()[name].value)


@pytest.mark.jvm
def test_by_default_frames_are_kept_for_a_day_and_findings_for_a_month(broker: EmbeddedBroker) -> None:
    create_topics(broker.internal, "frames", "findings")
    assert (partitions(broker)["frames"], partitions(broker)["findings"]) == (2, 1)
    assert setting(broker, "frames", "cleanup.policy") == "delete"
    assert setting(broker, "frames", "retention.ms") == "86400000"
    assert setting(broker, "findings", "cleanup.policy") == "compact,delete"
    assert setting(broker, "findings", "retention.ms") == str(30 * 86_400_000)
    assert setting(broker, "findings", "segment.ms") == str(3 * 86_400_000)


@pytest.mark.jvm
def test_the_quarantine_is_bounded_in_time_and_size(broker: EmbeddedBroker) -> None:
    create_missing(broker.internal, {}, quarantine_topic("quarantine", Topics()))
    assert partitions(broker)["quarantine"] == 1
    assert setting(broker, "quarantine", "cleanup.policy") == "compact,delete"
    assert setting(broker, "quarantine", "retention.ms") == str(3 * 86_400_000)
    assert setting(broker, "quarantine", "retention.bytes") == str(256 << 20)


@pytest.mark.jvm
def test_topics_are_created_as_configured(broker: EmbeddedBroker) -> None:
    create_topics(broker.internal, "my-frames", "my-findings", TOPICS)
    assert (partitions(broker)["my-frames"], partitions(broker)["my-findings"]) == (3, 2)
    assert setting(broker, "my-frames", "retention.ms") == "21600000"
    assert setting(broker, "my-frames", "retention.bytes") == str(500 << 20)
    assert setting(broker, "my-frames", "segment.bytes") == str(50 << 20)
    assert setting(broker, "my-findings", "retention.ms") == "172800000"


@pytest.mark.jvm
def test_a_topic_that_exists_stays_as_it_is(broker: EmbeddedBroker) -> None:
    create_topics(broker.internal, "old-frames", "old-findings")
    create_topics(broker.internal, "old-frames", "old-findings", TOPICS)
    assert partitions(broker)["old-frames"] == 2
    assert setting(broker, "old-frames", "retention.ms") == "86400000"


@pytest.mark.jvm
def test_a_replication_factor_that_the_cluster_cannot_have_is_an_error(broker: EmbeddedBroker) -> None:
    three = Topics(frames=FramesTopicSettings(replication_factor=3))
    with pytest.raises(UserError, match=r"cannot create the topic replicated at .*[Rr]eplication"):
        create_topics(broker.internal, "replicated", "findings", three)


@pytest.mark.jvm
def test_topics_that_exist_need_no_right_to_create(secure: SecureBroker) -> None:
    create_topics(secure.internal, "frames", "findings")
    secure.grant(
        "query",
        (ResourceType.TOPIC, "frames", AclOperation.READ),
        (ResourceType.TOPIC, "findings", AclOperation.WRITE),
    )
    create_topics(secure.sasl, "frames", "findings", settings=secure.login("query"))


@pytest.mark.jvm
def test_a_missing_topic_without_the_right_to_create_is_an_error_that_names_the_right(
    secure: SecureBroker,
) -> None:
    secure.grant("query", (ResourceType.TOPIC, "missing", AclOperation.READ))
    with pytest.raises(UserError, match=r"cannot create the topic missing .*beforehand, or grant Create"):
        create_topics(secure.sasl, "missing", "findings", settings=secure.login("query"))
    secure.grant("query", (ResourceType.TOPIC, "missing", AclOperation.CREATE))
    create_topics(secure.sasl, "missing", "findings", settings=secure.login("query"))
    assert "missing" in partitions(secure)


@pytest.mark.jvm
def test_a_topic_that_may_not_be_used_is_an_error(secure: SecureBroker) -> None:
    with pytest.raises(UserError, match=r"cannot use the topic secret .*docs/run.md lists the ACLs"):
        create_topics(secure.sasl, "secret", "findings", settings=secure.login("query"))
    assert "secret" not in partitions(secure)


@pytest.mark.jvm
def test_a_wrong_password_is_named_and_not_taken_for_a_broker_that_is_away(
    secure: SecureBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = secure.login(USER)
    monkeypatch.setenv(PASSWORD_VARIABLE, "another")
    monkeypatch.setattr("streaming.broker.topics.RESPONSE_SECONDS", 5.0)
    with pytest.raises(UserError, match=r"Authentication failed.*or the login and TLS in the table"):
        create_topics(secure.sasl, "frames", "findings", settings=settings)


def fed(*flags: object) -> tuple[Ran, float]:
    since = time.monotonic()
    own = ["--feeder-metrics-address", "127.0.0.1:0", "--ports", PORT]
    ran = run_process("feed", CAPTURE, *own, *flags, KIPWATCH_TEST_PASSWORD=PASSWORD)
    return ran, time.monotonic() - since


@pytest.mark.jvm
def test_a_missing_topic_is_created_as_configured(broker: EmbeddedBroker, tmp_path: Path) -> None:
    config = tmp_path / "kipwatch.toml"
    config.write_text("[topics.frames]\npartitions = 3")
    ran, seconds = fed("--bootstrap", broker.internal, "--frames-topic", "fresh", "--config", config)
    assert (ran.status, ran.errors) == (0, "")
    events = [json.loads(line) for line in ran.output.splitlines()]
    assert [event["feeder"] for event in events] == ["topic-created", "ready", "stopped"]
    assert events[-1]["records"]["delivered"] > 100
    topics = AdminClient({"bootstrap.servers": broker.internal}).list_topics(timeout=PATIENCE).topics
    assert len(topics["fresh"].partitions) == 3
    assert seconds < AT_ONCE


@pytest.mark.jvm
def test_a_missing_topic_that_may_not_be_created_is_named_at_once(
    secure: SecureBroker, tmp_path: Path
) -> None:
    secure.grant(USER, (ResourceType.TOPIC, "absent", AclOperation.WRITE))
    config = configured(tmp_path, secure.login(USER))
    ran, seconds = fed("--bootstrap", secure.sasl, "--frames-topic", "absent", "--config", config)
    assert f"cannot create the topic absent at {secure.sasl}" in ran.error_line
    assert "create it beforehand, or grant Create on it" in ran.error_line
    assert seconds < AT_ONCE


@pytest.mark.jvm
def test_a_topic_that_may_not_be_used_is_named_at_once(
    secure: SecureBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, PASSWORD)
    topic = FramesTopic(secure.sasl, "secret", Topics(), secure.login(USER))
    assert topic.wait(PATIENCE).startswith(f"cannot use the topic secret at {secure.sasl}")
    assert not topic.is_created


@pytest.mark.jvm
def test_a_replication_factor_that_the_cluster_cannot_have_is_told(broker: EmbeddedBroker) -> None:
    three = Topics(frames=FramesTopicSettings(replication_factor=3))
    topic = FramesTopic(broker.internal, "replicated", three, {})
    assert "cannot create the topic replicated" in topic.wait(PATIENCE)


@pytest.mark.jvm
def test_a_topic_that_exists_is_no_problem(broker: EmbeddedBroker) -> None:
    """It has the partitions that it was created with, whatever is configured now."""
    three = Topics(frames=FramesTopicSettings(partitions=3))
    created = FramesTopic(broker.internal, "twice", three, {})
    assert (created.wait(PATIENCE), created.is_created, created.partitions) == ("", True, 3)
    again = FramesTopic(broker.internal, "twice", Topics(), {})
    assert (again.wait(PATIENCE), again.is_created, again.partitions) == ("", False, 3)


def test_a_record_that_is_no_finding_hides_none_behind_it(capsys: pytest.CaptureFixture[str]) -> None:
    """Of librdkafka's mock broker, which lives as long as the producer that made it."""
    producer = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    (metadata,) = producer.list_topics(timeout=5).brokers.values()
    (found, *_) = violating().judge().findings
    for value in (b"hello", b'{"id": "1"}', msgspec.json.encode(found)):
        producer.produce("findings", value=value, partition=0)
    assert producer.flush(5) == 0
    with closing(FindingsTopic(f"{metadata.host}:{metadata.port}", "findings")) as topic:
        until(lambda: topic.poll(0.2), PATIENCE, every=0.0)
    assert list(topic.findings) == [found.id]
    refused = [line for line in capsys.readouterr().err.splitlines() if "no finding: " in line]
    assert [line.partition("offset ")[2][:2] for line in refused] == ["0:", "1:"]


def test_while_kafka_is_away_there_is_no_problem_with_the_topic() -> None:
    """The feeder goes on, and records wait."""
    topic = FramesTopic("127.0.0.1:1", "frames", Topics(), {})
    assert topic.wait(0.2) == ""
    assert (topic.problem(), topic.partitions) == ("", 0)


class FakeAdmin:
    """Answers each question at once: with an error code, or with a number of partitions."""

    def __init__(self, answers: list[int]) -> None:
        self._answers, self.asked = answers, list[str]()

    def describe_topics(self, wanted: TopicCollection, **_: object) -> dict[str, Future[Any]]:
        return self._answer("describe", "frames")

    def create_topics(self, wanted: list[NewTopic], **_: object) -> dict[str, Future[Any]]:
        return self._answer("create", wanted[0].topic)

    def _answer(self, question: str, topic: str) -> dict[str, Future[Any]]:
        self.asked.append(question)
        answer, future = self._answers.pop(0), Future[Any]()
        if answer > 0 and answer not in ERRORS:
            future.set_result(SimpleNamespace(partitions=range(answer)))
        else:
            future.set_exception(KafkaException(KafkaError(answer)))
        return {topic: future}


ABSENT, EXISTS, DENIED, LATE = ERRORS = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.TOPIC_ALREADY_EXISTS,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError._TIMED_OUT,
)


@pytest.mark.parametrize(
    ("answers", "asked", "outcome"),
    [
        ([5], ["describe"], ("", False, 5)),
        ([ABSENT, 7], ["describe", "create"], ("", True, 2)),
        ([ABSENT, EXISTS, 5], ["describe", "create", "describe"], ("", False, 5)),
        ([LATE, ABSENT, LATE, 5], ["describe", "describe", "create", "describe"], ("", False, 5)),
        ([DENIED], ["describe"], ("cannot use the topic frames", False, 0)),
        ([ABSENT, DENIED], ["describe", "create"], ("cannot create the topic frames", False, 0)),
    ],
)
def test_a_feeder_asks_until_the_topic_is_there_or_only_a_person_can_help(
    answers: list[int],
    asked: list[str],
    outcome: tuple[str, bool, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    admin = FakeAdmin(answers)
    monkeypatch.setattr("streaming.broker.topics.admin_client", lambda *_: admin)
    monkeypatch.setattr("streaming.broker.topics.PAUSE", 0.0)
    topic = FramesTopic("broker:9092", "frames", Topics(), {})
    problem, is_created, partitions = outcome
    assert topic.wait(PATIENCE).startswith(problem)
    assert bool(topic.problem()) is bool(problem)
    assert (topic.is_created, topic.partitions, admin.asked) == (is_created, partitions, asked)
