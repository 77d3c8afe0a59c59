"""Creates the topics of kipwatch, frames, findings and quarantine, unless they exist."""

import contextlib
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic

from streaming.settings.kafka_client import Setting, admin_client
from streaming.settings.topic_settings import Topics, TopicSettings
from streaming.user_error import UserError

# Seconds to wait for Kafka; it may be starting at the same time.
_PATIENCE = 30.0
_FORBIDDEN: Final = frozenset(
    {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}
)

_DEFAULTS: Final = Topics()
_HOUR: Final = 3_600_000
_MEBIBYTE: Final = 1 << 20
# Kafka deletes whole segments. With ten in the period, records are kept for at most a tenth longer.
_SEGMENTS: Final = 10
_LONGEST_SEGMENT: Final = 7 * 24 * _HOUR
_LARGEST_SEGMENT, _SMALLEST_SEGMENT = 1024 * _MEBIBYTE, 16 * _MEBIBYTE


def create_topics(
    bootstrap: str,
    frames: str,
    findings: str,
    topics: Topics = _DEFAULTS,
    *,
    settings: Mapping[str, Setting] = MappingProxyType({}),
) -> None:
    """Create the topics that do not exist; one that exists stays as it is, and no right to create is needed.

    `settings` is the table [kafka] of the configuration. Raises `UserError` if Kafka cannot be reached or
    refuses.
    """
    _create(bootstrap, settings, frames_topic(frames, topics), findings_topic(findings, topics))


def create_quarantine(
    bootstrap: str,
    name: str,
    topics: Topics = _DEFAULTS,
    *,
    settings: Mapping[str, Setting] = MappingProxyType({}),
) -> None:
    """Create the topic of the quarantine, as `create_topics` does the others. Raises `UserError`."""
    _create(bootstrap, settings, quarantine_topic(name, topics))


def _create(bootstrap: str, settings: Mapping[str, Setting], *wanted: NewTopic) -> None:
    admin = admin_client(bootstrap, settings)
    missing = [topic for topic in wanted if not _exists(admin, topic.topic, bootstrap)]
    if missing:
        for name, created in admin.create_topics(missing, request_timeout=_PATIENCE).items():
            # Another process may have created it meanwhile.
            with _explaining("create", name, bootstrap, KafkaError.TOPIC_ALREADY_EXISTS):
                created.result()


def frames_topic(name: str, topics: Topics) -> NewTopic:
    """Return the request to create the frames topic."""
    return _new_topic(name, topics.frames, "delete")


def findings_topic(name: str, topics: Topics) -> NewTopic:
    """Return the request to create the findings topic."""
    # The key is the finding's id: the latest state of each finding is kept, until it expires.
    return _new_topic(name, topics.findings, "compact,delete")


def quarantine_topic(name: str, topics: Topics) -> NewTopic:
    """Return the request to create the topic of the quarantine."""
    # The key is the place of the record: a batch that is judged again replaces what it wrote.
    return _new_topic(name, topics.quarantine, "compact,delete")


def reason(verb: str, topic: str, bootstrap: str, cause: KafkaError) -> str:
    """Say in one line why a topic cannot be used or created, and what to do."""
    return f"cannot {verb} the topic {topic} at {bootstrap}: {cause.str()}; {_remedy(verb, cause)}"


def _exists(admin: AdminClient, name: str, bootstrap: str) -> bool:
    (described,) = admin.describe_topics(TopicCollection([name]), request_timeout=_PATIENCE).values()
    with _explaining("use", name, bootstrap, KafkaError.UNKNOWN_TOPIC_OR_PART):
        described.result()
        return True
    return False


def _new_topic(name: str, settings: TopicSettings, policy: str) -> NewTopic:
    """Return the request to create a topic."""
    milliseconds = int(settings.retention_hours * _HOUR)
    config = {
        "cleanup.policy": policy,
        "retention.ms": milliseconds,
        "segment.ms": max(1, min(_LONGEST_SEGMENT, milliseconds // _SEGMENTS)),
    }
    if settings.retention_mebibytes:
        size = settings.retention_mebibytes * _MEBIBYTE
        segment = max(_SMALLEST_SEGMENT, min(_LARGEST_SEGMENT, size // _SEGMENTS))
        config |= {"retention.bytes": size, "segment.bytes": segment}
    replicas = {"replication_factor": settings.replication_factor} if settings.replication_factor else {}
    return NewTopic(
        name, settings.partitions, config={key: str(value) for key, value in config.items()}, **replicas
    )


@contextlib.contextmanager
def _explaining(verb: str, topic: str, bootstrap: str, harmless: int) -> Iterator[None]:
    """Raise `UserError` for an error of Kafka other than the harmless one."""
    try:
        yield
    except KafkaException as error:
        cause: KafkaError = error.args[0]
        if cause.code() != harmless:
            raise UserError(reason(verb, topic, bootstrap, cause)) from error


def _remedy(verb: str, cause: KafkaError) -> str:
    if cause.code() not in _FORBIDDEN:
        return "check that Kafka runs there and permits it"
    rights = "create it beforehand, or grant Create on it" if verb == "create" else "grant what it needs"
    return f"{rights} (docs/run.md lists the ACLs)"
