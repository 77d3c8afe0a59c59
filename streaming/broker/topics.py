"""Creates the two topics of kipwatch: frames and findings."""

import contextlib
from collections.abc import Iterator, Mapping
from datetime import timedelta
from types import MappingProxyType

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from decoders.retention import KEPT_FOR
from streaming.settings.kafka_client import librdkafka_settings
from streaming.user_error import UserError

# Seconds to wait for Kafka; it may be starting at the same time.
_PATIENCE = 30.0


def create_topics(
    bootstrap: str,
    frames: str,
    findings: str,
    partitions: int = 2,
    retention: timedelta = timedelta(microseconds=KEPT_FOR / 1_000),
    *,
    settings: Mapping[str, str | int | bool] = MappingProxyType({}),
) -> None:
    """Create the topic of frames and the compacted topic of findings; one that exists stays as it is.

    `partitions` and `retention` apply to the frames; `settings` is the table [kafka] of the configuration.
    Raises `UserError` if Kafka cannot be reached or refuses.
    """
    admin = AdminClient({**librdkafka_settings(bootstrap, settings), "log_level": 0})
    milliseconds = str(int(retention.total_seconds() * 1000))
    wanted = [
        NewTopic(frames, partitions, config={"retention.ms": milliseconds}),
        # The key is the finding's id: only the latest state of a finding is kept.
        NewTopic(findings, 1, config={"cleanup.policy": "compact"}),
    ]
    for topic, created in admin.create_topics(wanted, request_timeout=_PATIENCE).items():
        with _explaining(topic, bootstrap):
            created.result()


@contextlib.contextmanager
def _explaining(topic: str, bootstrap: str) -> Iterator[None]:
    """Raise `UserError` for an error of Kafka, except that the topic exists."""
    try:
        yield
    except KafkaException as error:
        cause: KafkaError = error.args[0]
        if cause.code() != KafkaError.TOPIC_ALREADY_EXISTS:
            reason = f"cannot create the topic {topic} at {bootstrap}: {cause.str()}"
            raise UserError(f"{reason}; check that Kafka runs there and permits it") from error
