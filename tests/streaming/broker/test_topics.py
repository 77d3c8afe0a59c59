"""Topics are created as configured; those that exist are used as they are, without the right to create."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AclOperation, AdminClient, ConfigResource, ResourceType

from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.topics import create_quarantine, create_topics
from streaming.settings.topic_settings import FindingsTopicSettings, FramesTopicSettings, Topics
from streaming.user_error import UserError
from tests.streaming.secure_broker import PASSWORD, PASSWORD_VARIABLE, SecureBroker

pytestmark = pytest.mark.jvm

TOPICS = Topics(
    frames=FramesTopicSettings(partitions=3, retention_hours=6, retention_mebibytes=500),
    findings=FindingsTopicSettings(partitions=2, retention_hours=48, replication_factor=1),
)


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


def test_by_default_frames_are_kept_for_a_day_and_findings_for_a_month(broker: EmbeddedBroker) -> None:
    create_topics(broker.internal, "frames", "findings")
    assert (partitions(broker)["frames"], partitions(broker)["findings"]) == (2, 1)
    assert setting(broker, "frames", "cleanup.policy") == "delete"
    assert setting(broker, "frames", "retention.ms") == "86400000"
    assert setting(broker, "findings", "cleanup.policy") == "compact,delete"
    assert setting(broker, "findings", "retention.ms") == str(30 * 86_400_000)
    assert setting(broker, "findings", "segment.ms") == str(3 * 86_400_000)


def test_the_quarantine_is_bounded_in_time_and_size(broker: EmbeddedBroker) -> None:
    create_quarantine(broker.internal, "quarantine")
    assert partitions(broker)["quarantine"] == 1
    assert setting(broker, "quarantine", "cleanup.policy") == "compact,delete"
    assert setting(broker, "quarantine", "retention.ms") == str(3 * 86_400_000)
    assert setting(broker, "quarantine", "retention.bytes") == str(256 << 20)


def test_topics_are_created_as_configured(broker: EmbeddedBroker) -> None:
    create_topics(broker.internal, "my-frames", "my-findings", TOPICS)
    assert (partitions(broker)["my-frames"], partitions(broker)["my-findings"]) == (3, 2)
    assert setting(broker, "my-frames", "retention.ms") == "21600000"
    assert setting(broker, "my-frames", "retention.bytes") == str(500 << 20)
    assert setting(broker, "my-frames", "segment.bytes") == str(50 << 20)
    assert setting(broker, "my-findings", "retention.ms") == "172800000"


def test_a_topic_that_exists_stays_as_it_is(broker: EmbeddedBroker) -> None:
    create_topics(broker.internal, "old-frames", "old-findings")
    create_topics(broker.internal, "old-frames", "old-findings", TOPICS)
    assert partitions(broker)["old-frames"] == 2
    assert setting(broker, "old-frames", "retention.ms") == "86400000"


def test_a_replication_factor_that_the_cluster_cannot_have_is_an_error(broker: EmbeddedBroker) -> None:
    three = Topics(frames=FramesTopicSettings(replication_factor=3))
    with pytest.raises(UserError, match=r"cannot create the topic replicated at .*[Rr]eplication"):
        create_topics(broker.internal, "replicated", "findings", three)


def test_topics_that_exist_need_no_right_to_create(secure: SecureBroker) -> None:
    create_topics(secure.internal, "frames", "findings")
    secure.grant(
        "query",
        (ResourceType.TOPIC, "frames", AclOperation.READ),
        (ResourceType.TOPIC, "findings", AclOperation.WRITE),
    )
    create_topics(secure.sasl, "frames", "findings", settings=secure.login("query"))


def test_a_missing_topic_without_the_right_to_create_is_an_error_that_names_the_right(
    secure: SecureBroker,
) -> None:
    secure.grant("query", (ResourceType.TOPIC, "missing", AclOperation.READ))
    with pytest.raises(UserError, match=r"cannot create the topic missing .*beforehand, or grant Create"):
        create_topics(secure.sasl, "missing", "findings", settings=secure.login("query"))
    secure.grant("query", (ResourceType.TOPIC, "missing", AclOperation.CREATE))
    create_topics(secure.sasl, "missing", "findings", settings=secure.login("query"))
    assert "missing" in partitions(secure)


def test_a_topic_that_may_not_be_used_is_an_error(secure: SecureBroker) -> None:
    with pytest.raises(UserError, match=r"cannot use the topic secret .*docs/run.md lists the ACLs"):
        create_topics(secure.sasl, "secret", "findings", settings=secure.login("query"))
    assert "secret" not in partitions(secure)
