"""A feeder without a frames topic: it is created at once, or the error names it at once."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation, AdminClient, ResourceType

from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.frames_topic import FramesTopic
from streaming.settings.topic_settings import FramesTopicSettings, Topics
from tests.streaming.commands.ran import Ran, run_process
from tests.streaming.feeder.test_secure_kafka import CAPTURE, PORT, configured
from tests.streaming.secure_broker import PASSWORD, PASSWORD_VARIABLE, USER, SecureBroker

PATIENCE = 30.0
AT_ONCE = 15.0
"""Seconds for a whole process on a busy machine; an unknown topic is refused after 30 by librdkafka."""


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    with SecureBroker(tmp_path_factory.mktemp("secure")) as running:
        yield running


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
    secure.grant(USER, (ResourceType.TOPIC, "missing", AclOperation.WRITE))
    config = configured(tmp_path, secure.login(USER))
    ran, seconds = fed("--bootstrap", secure.sasl, "--frames-topic", "missing", "--config", config)
    assert f"cannot create the topic missing at {secure.sasl}" in ran.error_line
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


def test_while_kafka_is_away_there_is_no_problem_with_the_topic() -> None:
    """The feeder goes on, and records wait."""
    topic = FramesTopic("127.0.0.1:1", "frames", Topics(), {})
    assert topic.wait(0.2) == ""
    assert (topic.problem(), topic.partitions) == ("", 0)
