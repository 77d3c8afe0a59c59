"""Examines Kafka: whether it can be reached, and of its topics existence, rights and settings."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, ConfigResource, NewTopic, TopicDescription

from streaming.broker.topics import findings_topic, frames_topic, quarantine_topic, reason
from streaming.doctor.diagnosis import Diagnosis, Verdict
from streaming.settings.address import address_text, bootstrap_addresses
from streaming.settings.configuration import Configuration
from streaming.settings.kafka_client import admin_client

_PATIENCE: Final = 10.0
"""Seconds to wait for Kafka, for each question."""
_CONNECT_SECONDS: Final = 3.0


class Use(NamedTuple):
    """How a process uses a topic: `wanted` is the request by which it creates it."""

    topic: str
    right: AclOperation
    wanted: NewTopic


class KafkaDoctor:
    """Asks the Kafka of a configuration. Changes nothing there.

    Raises UserError if the table [kafka] is invalid.
    """

    def __init__(self, configuration: Configuration) -> None:
        self._bootstrap = configuration.bootstrap
        self._errors: list[str] = []
        self._admin = admin_client(self._bootstrap, configuration.kafka, self._on_error)

    def reach(self) -> Diagnosis:
        """Whether a broker answers as Kafka does, at the addresses that are configured."""
        name = f"Kafka at {self._bootstrap}"
        tried = [_connect(*address) for address in bootstrap_addresses(self._bootstrap)]
        closed = "; ".join(filter(None, tried))
        if all(tried):
            return Diagnosis(Verdict.NO, name, f"{closed}: correct `bootstrap`, or start the broker")
        try:
            found = self._admin.describe_cluster(request_timeout=_PATIENCE).result()
        except KafkaException as error:
            self._admin.poll(0)
            cause = self._errors[-1] if self._errors else error.args[0].str()
            remedy = "correct `bootstrap`, or the login and TLS in the table [kafka]"
            return Diagnosis(Verdict.NO, name, f"it accepts connections, but: {cause}; {remedy}")
        if closed:
            return Diagnosis(Verdict.NOTE, name, f"{closed}: correct `bootstrap`; the rest answers")
        return Diagnosis(Verdict.YES, name, f"cluster {found.cluster_id}, brokers: {len(found.nodes)}")

    def topic(self, use: Use) -> Iterator[Diagnosis]:
        """Whether a topic exists or can be created, whether the user has the right, and the settings fit."""
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
                yield Diagnosis(Verdict.NO, name, detail)
            return
        yield self._right(name, use, described)
        yield self._settings(name, use, described)

    def _creation(self, name: str, use: Use) -> Diagnosis:
        """Ask whether the topic could be created, without creating it."""
        (created,) = self._admin.create_topics(
            [use.wanted], validate_only=True, request_timeout=_PATIENCE
        ).values()
        if error := _failure(created):
            detail = reason("create", use.topic, self._bootstrap, error)
            return Diagnosis(Verdict.NO, name, f"it does not exist; {detail}")
        return Diagnosis(Verdict.YES, name, "it does not exist, and will be created")

    def _right(self, name: str, use: Use, described: TopicDescription) -> Diagnosis:
        allowed = described.authorized_operations
        if allowed is None:
            return Diagnosis(Verdict.NOTE, name, f"Kafka does not say: {_grant(use)} if ACLs are on")
        if use.right in allowed or AclOperation.ALL in allowed:
            return Diagnosis(Verdict.YES, name, f"{_said(use.right)} is permitted")
        return Diagnosis(Verdict.NO, name, f"{_said(use.right)} is not permitted: {_grant(use)}")

    def _settings(self, name: str, use: Use, described: TopicDescription) -> Diagnosis:
        name = f"settings of {name}"
        resource = ConfigResource(ConfigResource.Type.TOPIC, use.topic)
        (asked,) = self._admin.describe_configs([resource], request_timeout=_PATIENCE).values()
        if _failure(asked):
            detail = f"not shown to this user: grant DescribeConfigs on {use.topic} to have them examined"
            return Diagnosis(Verdict.NOTE, name, detail)
        actual = {key: str(entry.value) for key, entry in asked.result().items()}
        problems = _differences(actual, use.wanted.config)
        partitions = len(described.partitions)
        if problems:
            remedy = f"unless you want it so, alter {use.topic} by kafka-configs"
            return Diagnosis(Verdict.NOTE, name, f"{'; '.join(problems)}: {remedy}")
        return Diagnosis(Verdict.YES, name, f"{partitions} partitions, kept {_hours(actual['retention.ms'])}")

    def _on_error(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._errors.append(error.str())


def frames_use(configuration: Configuration, right: AclOperation) -> Use:
    """Return how a process uses the topic of frames."""
    name = configuration.frames_topic
    return Use(name, right, frames_topic(name, configuration.topics))


def findings_use(configuration: Configuration) -> Use:
    """Return how the query uses the topic of findings."""
    name = configuration.findings_topic
    return Use(name, AclOperation.WRITE, findings_topic(name, configuration.topics))


def quarantine_use(configuration: Configuration) -> Use:
    """Return how the query uses the topic of the quarantine."""
    name = configuration.quarantine_topic
    return Use(name, AclOperation.WRITE, quarantine_topic(name, configuration.topics))


def _connect(host: str, port: int) -> str:
    """Say why no TCP connection is possible; "" if one is."""
    try:
        socket.create_connection((host, port), _CONNECT_SECONDS).close()
    except OSError as error:
        return f"cannot connect to {address_text(host, port)} ({error.strerror or error})"
    return ""


def _failure(asked: Future[Any]) -> KafkaError | None:
    try:
        asked.result()
    except KafkaException as error:
        cause: KafkaError = error.args[0]
        return cause
    return None


def _differences(actual: Mapping[str, str], wanted: Mapping[str, str]) -> list[str]:
    """Say what of a topic is other than kipwatch would create it, and matters."""
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


def _grant(use: Use) -> str:
    return f"grant {_said(use.right)} on {use.topic} (docs/run.md lists the ACLs)"
