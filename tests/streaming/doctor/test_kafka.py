"""What the doctor says of a real Kafka with TLS, a login and ACLs: each defect, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AclOperation, AdminClient, NewTopic, ResourceType

from streaming.broker.topics import create_topics
from streaming.commands.doctor import examination
from streaming.doctor import Answer, Diagnosis
from streaming.doctor.kafka import KafkaDoctor, TopicUse, findings_use, frames_use
from streaming.settings.configuration import Configuration, FramesTopicSettings, Topics
from streaming.settings.kafka_client import Setting
from tests.streaming.secure_broker import PASSWORD, PASSWORD_VARIABLE, USER, SecureBroker

FRAMES, FINDINGS = "kipwatch.frames", "kipwatch.findings"
YES, NOTE, NO = Answer.YES, Answer.NOTE, Answer.NO


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    with SecureBroker(tmp_path_factory.mktemp("secure")) as running:
        create_topics(running.internal, FRAMES, FINDINGS)
        running.grant(USER, (ResourceType.TOPIC, FRAMES, AclOperation.WRITE))
        running.grant("query", (ResourceType.TOPIC, FRAMES, AclOperation.READ))
        yield running


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, PASSWORD)


def configured(broker: SecureBroker, user: str = "", **settings: object) -> Configuration:
    """The configuration of a user who logs in, or of one who may do all."""
    bootstrap, kafka = (broker.sasl, broker.login(user)) if user else (broker.internal, {})
    return Configuration(bootstrap=bootstrap, kafka=kafka, **settings)  # type: ignore[arg-type]


def of_topic(configuration: Configuration, use: TopicUse) -> list[Diagnosis]:
    return list(KafkaDoctor(configuration).topic(use))


def reached(bootstrap: str, kafka: dict[str, Setting] | None = None) -> Diagnosis:
    return KafkaDoctor(Configuration(bootstrap=bootstrap, kafka=kafka or {})).reach()


@pytest.mark.jvm
def test_what_is_well_is_told_with_what_was_seen(secure: SecureBroker) -> None:
    configuration = configured(secure)
    found = reached(secure.internal)
    assert (found.answer, found.detail.endswith(", brokers: 1")) == (YES, True)
    right, settings = of_topic(configuration, frames_use(configuration, AclOperation.READ))
    assert (right.answer, right.detail) == (YES, "Read is permitted")
    assert (settings.answer, settings.detail) == (YES, "2 partitions, kept 24 h")
    assert [each.answer for each in of_topic(configuration, findings_use(configuration))] == [YES, YES]


def test_a_port_where_nothing_listens_is_told_at_once() -> None:
    found = reached("127.0.0.1:1")
    assert found.answer is NO
    assert found.detail.startswith("cannot connect to 127.0.0.1:1 (Connection refused): correct `bootstrap`")


@pytest.mark.jvm
def test_a_port_that_demands_tls_is_told(secure: SecureBroker) -> None:
    found = reached(secure.tls)
    assert found.answer is NO
    assert found.detail.startswith("it accepts connections, but: it speaks TLS, and this client does not; ")
    assert "[kafka]" in found.detail


@pytest.mark.jvm
def test_a_wrong_password_is_told_with_the_brokers_words(
    secure: SecureBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, "wrong")
    found = reached(secure.sasl, secure.login(USER))
    assert found.answer is NO
    assert "Authentication failed" in found.detail


@pytest.mark.jvm
def test_a_broker_of_several_that_is_away_is_a_note(secure: SecureBroker) -> None:
    found = reached(f"127.0.0.1:1,{secure.internal}")
    assert (found.answer, "cannot connect to 127.0.0.1:1 " in found.detail) == (NOTE, True)


@pytest.mark.jvm
def test_the_rights_that_the_page_names_are_enough(secure: SecureBroker) -> None:
    configuration = configured(secure, USER)
    right, settings = of_topic(configuration, frames_use(configuration, AclOperation.WRITE))
    assert (right.answer, right.detail) == (YES, "Write is permitted")
    # The right to see settings is not among them.
    assert settings.answer is NOTE
    assert "grant DescribeConfigs on kipwatch.frames" in settings.detail


@pytest.mark.jvm
def test_a_missing_right_is_named(secure: SecureBroker) -> None:
    configuration = configured(secure, "query")
    right, _ = of_topic(configuration, frames_use(configuration, AclOperation.WRITE))
    assert right.answer is NO
    assert right.detail == (
        "Write is not permitted: grant Write on kipwatch.frames (docs/run.md lists the ACLs)"
    )


@pytest.mark.jvm
def test_a_topic_that_the_user_may_not_even_see_is_told(secure: SecureBroker) -> None:
    configuration = configured(secure, "query")
    (found,) = of_topic(configuration, findings_use(configuration))
    assert found.answer is NO
    assert "grant Write on kipwatch.findings" in found.detail


@pytest.mark.jvm
def test_a_missing_topic_is_created_later_if_it_may_be(secure: SecureBroker) -> None:
    secure.grant(USER, (ResourceType.TOPIC, "missing", AclOperation.WRITE))
    configuration = configured(secure, USER, frames_topic="missing")
    (found,) = of_topic(configuration, frames_use(configuration, AclOperation.WRITE))
    assert found.answer is NO
    assert "it does not exist; " in found.detail
    assert "grant Create on it" in found.detail
    secure.grant(USER, (ResourceType.TOPIC, "missing", AclOperation.CREATE))
    (found,) = of_topic(configuration, frames_use(configuration, AclOperation.WRITE))
    assert (found.answer, found.detail) == (YES, "it does not exist, and will be created")
    topics = AdminClient({"bootstrap.servers": secure.internal}).list_topics(timeout=10).topics
    assert "missing" not in topics


@pytest.mark.jvm
def test_a_missing_topic_that_the_cluster_cannot_create_is_told(secure: SecureBroker) -> None:
    three = Topics(frames=FramesTopicSettings(replication_factor=3))
    configuration = configured(secure, frames_topic="replicated", topics=three)
    (found,) = of_topic(configuration, frames_use(configuration, AclOperation.WRITE))
    assert (found.answer, "eplication" in found.detail) == (NO, True)


@pytest.mark.jvm
def test_settings_that_do_harm_are_told(secure: SecureBroker) -> None:
    admin = AdminClient({"bootstrap.servers": secure.internal})
    config = {"cleanup.policy": "compact,delete", "retention.ms": "3600000"}
    admin.create_topics([NewTopic("odd", 1, config=config)])["odd"].result()
    configuration = configured(secure, frames_topic="odd", findings_topic="odd")
    _, frames = of_topic(configuration, frames_use(configuration, AclOperation.READ))
    assert frames.answer is NOTE
    assert "deletes frames before they are judged" in frames.detail
    assert "records are kept 1 h, not the 24 h of the configuration" in frames.detail
    assert "kafka-configs" in frames.detail


@pytest.mark.jvm
def test_a_query_is_examined_as_a_whole(secure: SecureBroker) -> None:
    configuration = configured(secure, "query", checkpoint="/nowhere/checkpoint")
    found = {each.name: each for each in examination(configuration, feeder=False, query=True)}
    assert found["Java"].answer is found[f"topic {FRAMES}"].answer is YES
    assert found["Spark's login to Kafka"].detail == "by SASL_SSL"
    assert found[f"topic {FINDINGS}"].answer is found["topic kipwatch.quarantine"].answer is NO
    assert "packet capture" not in found


def test_a_table_that_java_cannot_follow_is_told_and_a_missing_secret() -> None:
    kafka: dict[str, Setting] = {"ssl.crl.location": "crl.pem", "sasl.password": "env:KIPWATCH_NOT_SET"}
    configuration = Configuration(bootstrap="127.0.0.1:1", kafka=kafka)
    query = {each.name: each for each in examination(configuration, feeder=False, query=True)}
    assert "ssl.crl.location" in query["Spark's login to Kafka"].detail
    assert (query["Kafka"].answer, "KIPWATCH_NOT_SET is not set" in query["Kafka"].detail) == (NO, True)
