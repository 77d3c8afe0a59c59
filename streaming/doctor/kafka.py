"""Examines Kafka: whether it can be reached, and the existence, rights and settings of its topics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, ConfigResource, NewTopic, TopicDescription

from streaming.broker.cluster import ConnectionErrors, closed_addresses, describe_cluster
from streaming.broker.topics import findings_topic, frames_topic, quarantine_topic, reason
from streaming.doctor import Answer, Diagnosis
from streaming.settings.configuration import Configuration
from streaming.settings.kafka_client import admin_client
from streaming.user_error import UserError

_PATIENCE: Final = 10.0
"""Seconds to wait for each answer of Kafka."""


class TopicUse(NamedTuple):
    """How a process uses a topic. `wanted` is the request with which it creates the topic."""

    topic: str
    right: AclOperation
    wanted: NewTopic


class KafkaDoctor:
    """Asks the Kafka of a configuration, and changes nothing there.

    Raises UserError if the table [kafka] is invalid.
    """

    def __init__(self, configuration: Configuration) -> None:
        self._bootstrap = configuration.bootstrap
        self._errors = ConnectionErrors(self._bootstrap, configuration.kafka)
        self._admin = admin_client(self._bootstrap, configuration.kafka, self._errors)

    def reach(self) -> Diagnosis:
        """Examine whether a Kafka broker answers at the configured addresses."""
        name = f"Kafka at {self._bootstrap}"
        try:
            found = describe_cluster(self._bootstrap, self._admin, self._errors)
        except UserError as error:
            return Diagnosis(Answer.NO, name, str(error))
        if closed := "; ".join(closed_addresses(self._bootstrap)):
            return Diagnosis(Answer.NOTE, name, f"{closed}: correct `bootstrap`; the rest answers")
        return Diagnosis(Answer.YES, name, f"cluster {found.cluster_id}, brokers: {len(found.nodes)}")

    def topic(self, use: TopicUse) -> Iterator[Diagnosis]:
        """Examine whether a topic exists or can be created, the user's right, and the topic's settings."""
        name = f"topic {use.topic}"
        asked = self._admin.describe_topics(
            TopicCollection([use.topic]), include_authorized_operations=True, request_timeout=_PATIENCE
        )
        try:
            described: TopicDescription = asked[use.topic].result()
        except KafkaException as error:
            cause: KafkaError = error.args[0]
            if cause.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                yield self._creation(name, use)
            else:
                detail = f"cannot be used: {cause.str()}: {_grant(use)}"
                yield Diagnosis(Answer.NO, name, detail)
            return
        yield self._right(name, use, described)
        yield self._settings(name, use, described)

    def _creation(self, name: str, use: TopicUse) -> Diagnosis:
        """Ask whether the topic could be created."""
        (created,) = self._admin.create_topics(
            [use.wanted], validate_only=True, request_timeout=_PATIENCE
        ).values()
        if error := _failure(created):
            detail = reason("create", use.topic, self._bootstrap, error)
            return Diagnosis(Answer.NO, name, f"it does not exist; {detail}")
        return Diagnosis(Answer.YES, name, "it does not exist, and will be created")

    def _right(self, name: str, use: TopicUse, described: TopicDescription) -> Diagnosis:
        allowed = described.authorized_operations
        if allowed is None:
            return Diagnosis(Answer.NOTE, name, f"Kafka does not say: {_grant(use)} if ACLs are on")
        if use.right in allowed or AclOperation.ALL in allowed:
            return Diagnosis(Answer.YES, name, f"{_said(use.right)} is permitted")
        return Diagnosis(Answer.NO, name, f"{_said(use.right)} is not permitted: {_grant(use)}")

    def _settings(self, name: str, use: TopicUse, described: TopicDescription) -> Diagnosis:
        name = f"settings of {name}"
        resource = ConfigResource(ConfigResource.Type.TOPIC, use.topic)
        (asked,) = self._admin.describe_configs([resource], request_timeout=_PATIENCE).values()
        if _failure(asked):
            detail = f"not shown to this user: grant DescribeConfigs on {use.topic} to have them examined"
            return Diagnosis(Answer.NOTE, name, detail)
        actual = {key: str(entry.value) for key, entry in asked.result().items()}
        problems = _differences(actual, use.wanted.config)
        partitions = len(described.partitions)
        if problems:
            remedy = f"unless you want it so, alter {use.topic} by kafka-configs"
            return Diagnosis(Answer.NOTE, name, f"{'; '.join(problems)}: {remedy}")
        return Diagnosis(Answer.YES, name, f"{partitions} partitions, kept {_hours(actual['retention.ms'])}")


def frames_use(configuration: Configuration, right: AclOperation) -> TopicUse:
    """Return the use of the frames topic by a process with a right."""
    name = configuration.frames_topic
    return TopicUse(name, right, frames_topic(name, configuration.topics))


def findings_use(configuration: Configuration) -> TopicUse:
    """Return the query's use of the findings topic."""
    name = configuration.findings_topic
    return TopicUse(name, AclOperation.WRITE, findings_topic(name, configuration.topics))


def quarantine_use(configuration: Configuration) -> TopicUse:
    """Return the query's use of the quarantine topic."""
    name = configuration.quarantine_topic
    return TopicUse(name, AclOperation.WRITE, quarantine_topic(name, configuration.topics))


def _failure(asked: Future[Any]) -> KafkaError | None:
    try:
        asked.result()
    except KafkaException as error:
        cause: KafkaError = error.args[0]
        return cause
    return None


def _differences(actual: Mapping[str, str], wanted: Mapping[str, str]) -> list[str]:
    """Describe settings of a topic that differ from those kipwatch creates it with, and matter."""
    found = []
    is_compacted, shall_be = ("compact" in each["cleanup.policy"] for each in (actual, wanted))
    if is_compacted and not shall_be:
        found.append("it is compacted, which deletes frames before they are judged (cleanup.policy)")
    if shall_be and not is_compacted:
        found.append("it is not compacted, so that what is written again stays twice (cleanup.policy)")
    kept = int(actual["retention.ms"])
    if 0 <= kept < int(wanted["retention.ms"]):
        found.append(
            f"records are kept {_hours(actual['retention.ms'])}, not the {_hours(wanted['retention.ms'])} "
            "of the configuration (retention.ms)"
        )
    return found


def _hours(milliseconds: str) -> str:
    return f"{int(milliseconds) / 3_600_000:g} h" if int(milliseconds) >= 0 else "for ever"


def _said(right: AclOperation) -> str:
    return str(right.name).capitalize()


def _grant(use: TopicUse) -> str:
    return f"grant {_said(use.right)} on {use.topic} (docs/run.md lists the ACLs)"
