"""kipwatch's topics: creates frames, findings and quarantine unless they exist, and reads findings.

`create_topics` waits for Kafka, as the query and the demo do at their start. `FramesTopic` does the same for
a feeder without waiting, since a feeder must not lose packets while Kafka is away. A topic that exists stays
as it is, and using it needs no right to create topics.
"""

from __future__ import annotations

import contextlib
import enum
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import msgspec
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from expectations.judging.finding import Finding
from streaming.broker.cluster import FORBIDDEN, ConnectionErrors
from streaming.settings.configuration import Topics, TopicSettings
from streaming.settings.kafka_client import Setting, admin_client, librdkafka_settings, made
from streaming.user_error import UserError

RESPONSE_SECONDS: Final = 30.0
"""How long Kafka may take to answer. It may be starting at the same time."""
PAUSE: Final = 1.0
"""Seconds until Kafka is asked again after it could not be asked."""

_DEFAULTS: Final = Topics()
_HOUR: Final = 3_600_000
_MEBIBYTE: Final = 1 << 20
# Kafka deletes whole segments. With ten in the retention time, records stay at most a tenth longer.
_SEGMENTS: Final = 10
_LONGEST_SEGMENT: Final = 7 * 24 * _HOUR
_LARGEST_SEGMENT, _SMALLEST_SEGMENT = 1024 * _MEBIBYTE, 16 * _MEBIBYTE
_DEFINITE: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.POLICY_VIOLATION,
        KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.INVALID_CONFIG,
        KafkaError.INVALID_PARTITIONS,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError._INVALID_ARG,
    }
)
"""Errors that only a person can correct. After all others Kafka is asked again."""
_DECODER: Final = msgspec.json.Decoder(Finding)
Explain = Callable[[KafkaException], str]
"""Says in one line why a request failed."""
_UNREACHED: Final = frozenset({KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN})
"""Errors that say nothing of the topic: what the connections met says why."""


def create_topics(
    bootstrap: str,
    frames: str,
    findings: str,
    topics: Topics = _DEFAULTS,
    *,
    settings: Mapping[str, Setting] = MappingProxyType({}),
) -> None:
    """Create the topics of frames and findings unless they exist.

    `settings` is the table [kafka] of the configuration. Raises `UserError` if Kafka cannot be reached
    or refuses.
    """
    create_missing(bootstrap, settings, frames_topic(frames, topics), findings_topic(findings, topics))


def create_missing(bootstrap: str, settings: Mapping[str, Setting], *wanted: NewTopic) -> None:
    """Create the topics that do not exist, as `create_topics` does. Raises `UserError`."""
    errors = ConnectionErrors(bootstrap, settings)
    admin = admin_client(bootstrap, settings, errors)
    explain = partial(errors.explain, admin)
    missing = [topic for topic in wanted if not _exists(admin, topic.topic, bootstrap, explain)]
    if missing:
        for name, created in admin.create_topics(missing, request_timeout=RESPONSE_SECONDS).items():
            # Another process may have created it meanwhile.
            with _explaining("create", name, bootstrap, KafkaError.TOPIC_ALREADY_EXISTS, explain):
                created.result()


def frames_topic(name: str, topics: Topics) -> NewTopic:
    """Return the request to create the frames topic."""
    return _new_topic(name, topics.frames, "delete")


def findings_topic(name: str, topics: Topics) -> NewTopic:
    """Return the request to create the findings topic."""
    # Compacted by the finding's ID: the latest state of each finding stays until it expires.
    return _new_topic(name, topics.findings, "compact,delete")


def quarantine_topic(name: str, topics: Topics) -> NewTopic:
    """Return the request to create the topic of the quarantine."""
    # Compacted by the place of the record: a batch that is judged again replaces what it wrote.
    return _new_topic(name, topics.quarantine, "compact,delete")


def reason(verb: str, topic: str, bootstrap: str, cause: KafkaError) -> str:
    """Explain in one line why a topic cannot be used or created, and what to do."""
    return f"cannot {verb} the topic {topic} at {bootstrap}: {cause.str()}; {_remedy(verb, cause)}"


def _exists(admin: AdminClient, name: str, bootstrap: str, explain: Explain) -> bool:
    (described,) = admin.describe_topics(TopicCollection([name]), request_timeout=RESPONSE_SECONDS).values()
    with _explaining("use", name, bootstrap, KafkaError.UNKNOWN_TOPIC_OR_PART, explain):
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
def _explaining(verb: str, topic: str, bootstrap: str, harmless: int, explain: Explain) -> Iterator[None]:
    """Turn an error of Kafka into `UserError`, except the harmless one."""
    try:
        yield
    except KafkaException as error:
        cause: KafkaError = error.args[0]
        if cause.code() in _UNREACHED:
            raise UserError(f"cannot ask Kafka at {bootstrap}: {explain(error)}") from error
        if cause.code() != harmless:
            raise UserError(reason(verb, topic, bootstrap, cause)) from error


def _remedy(verb: str, cause: KafkaError) -> str:
    if cause.code() not in FORBIDDEN:
        return "check that Kafka runs there and permits it"
    rights = "create it beforehand, or grant Create on it" if verb == "create" else "grant what it needs"
    return f"{rights} (docs/run.md lists the ACLs)"


class _State(enum.Enum):
    """What a FramesTopic does: the two questions to Kafka, a pause, or nothing more."""

    DESCRIBING = "use"
    CREATING = "create"
    PAUSING = "pause"
    SETTLED = "settled"


_NEXT: Final[Mapping[tuple[_State, int], _State]] = {
    (_State.DESCRIBING, KafkaError.UNKNOWN_TOPIC_OR_PART): _State.CREATING,
    # Another process has created it meanwhile, perhaps with other partitions.
    (_State.CREATING, KafkaError.TOPIC_ALREADY_EXISTS): _State.DESCRIBING,
}
"""The state after an error. After all other errors: SETTLED for those in _DEFINITE, else PAUSING."""


class FramesTopic:
    """Finds out whether the frames topic exists, and creates it as configured if it does not.

    It never waits for Kafka, which may be away for as long as it likes: each call of `problem` takes one step
    if Kafka has answered.

        state       answer                                   next        afterwards
        DESCRIBING  the topic                                SETTLED     `partitions` is its number
                    there is no such topic                   CREATING
        CREATING    the topic is created                     SETTLED     `partitions` is as configured
                    it exists: another process created it    DESCRIBING
        either      an error that only a person can correct  SETTLED     `problem` names it
                    any other error, such as a timeout       PAUSING
        PAUSING     (a second has passed)                    DESCRIBING

    `is_created` is True if this object has created the topic. `partitions` is 0 while it is unknown.
    """

    def __init__(self, bootstrap: str, name: str, topics: Topics, settings: Mapping[str, Setting]) -> None:
        """Ask Kafka. `settings` is the table [kafka] of the configuration. Raises UserError."""
        self.is_created = False
        self.partitions = 0
        self._bootstrap, self._name, self._topics = bootstrap, name, topics
        self._admin = admin_client(bootstrap, settings)
        self._problem = ""
        self._ask_at = 0.0
        self._answer: Future[Any]
        self._enter(_State.DESCRIBING)

    def problem(self) -> str:
        """Return why records cannot be published; "" if they can, or if that is unknown. Call it often."""
        if self._state is _State.PAUSING:
            if time.monotonic() >= self._ask_at:
                self._enter(_State.DESCRIBING)
        elif self._state is not _State.SETTLED and self._answer.done():
            self._read_answer()
        return self._problem

    def wait(self, seconds: float) -> str:
        """Wait at most `seconds` until it is known whether there is a problem. Returns the problem."""
        ends_at = time.monotonic() + seconds
        while self._state is not _State.SETTLED and time.monotonic() < ends_at:
            self.problem()
            time.sleep(0.02)
        return self._problem

    def _enter(self, state: _State) -> None:
        self._state = state
        match state:
            case _State.DESCRIBING:
                wanted = TopicCollection([self._name])
                asked = self._admin.describe_topics(wanted, request_timeout=RESPONSE_SECONDS)
                self._answer = asked[self._name]
            case _State.CREATING:
                new = frames_topic(self._name, self._topics)
                asked = self._admin.create_topics([new], request_timeout=RESPONSE_SECONDS)
                self._answer = asked[self._name]
            case _State.PAUSING:
                self._ask_at = time.monotonic() + PAUSE

    def _read_answer(self) -> None:
        try:
            described = self._answer.result()
        except KafkaException as failure:
            self._react(failure.args[0])
        else:
            self.is_created = self._state is _State.CREATING
            self.partitions = self._topics.frames.partitions if self.is_created else len(described.partitions)
            self._enter(_State.SETTLED)

    def _react(self, error: KafkaError) -> None:
        otherwise = _State.SETTLED if error.code() in _DEFINITE else _State.PAUSING
        state = _NEXT.get((self._state, error.code()), otherwise)
        if state is _State.SETTLED:
            self._problem = reason(self._state.value, self._name, self._bootstrap, error)
        self._enter(state)


class FindingsTopic:
    """Reads the findings topic from its beginning. `findings` has the latest state of each finding by ID."""

    def __init__(
        self, bootstrap: str, topic: str, settings: Mapping[str, Setting] = MappingProxyType({})
    ) -> None:
        """`settings` is the table [kafka] of the configuration.

        Raises UserError if the table is invalid, Kafka cannot be asked or has no such topic.
        """
        self._name = f"the topic {topic} at {bootstrap}"
        self._errors = ConnectionErrors(bootstrap, settings)
        # It joins no group, so it may pause for any time, but the client demands a group ID.
        own = {"group.id": "kipwatch-findings", "enable.auto.commit": False}
        own |= {"log_level": 0, "error_cb": self._errors}
        self._consumer = made(Consumer, {**librdkafka_settings(bootstrap, settings), **own})
        self._consumer.assign(
            [
                TopicPartition(topic, partition, OFFSET_BEGINNING)
                for partition in self._partitions(bootstrap, topic)
            ]
        )
        self.findings: dict[str, Finding] = {}

    def poll(self, seconds: float) -> list[Finding]:
        """Return findings that are new since the last call, waiting at most `seconds` for them.

        A record that is no finding is named on standard error. Raises UserError if the user may not read the
        topic.
        """
        fresh = []
        deadline = time.monotonic() + seconds
        while message := self._consumer.poll(max(0.0, deadline - time.monotonic())):
            self._refuse_forbidden(message.error())
            if message.error() is not None or message.value() is None:
                continue
            finding = self._decoded(message)
            if finding is None:
                continue
            if finding.id not in self.findings:
                fresh.append(finding)
            self.findings[finding.id] = finding
        return fresh

    def close(self) -> None:
        self._consumer.close()

    def _decoded(self, message: Message) -> Finding | None:
        try:
            return _DECODER.decode(message.value() or b"")
        except msgspec.MsgspecError as error:
            place = f"partition {message.partition()}, offset {message.offset()}"
            print(f"kipwatch: {self._name}, {place}: no finding: {error}", file=sys.stderr)
            return None

    def _partitions(self, bootstrap: str, topic: str) -> list[int]:
        try:
            described = self._consumer.list_topics(topic, RESPONSE_SECONDS).topics[topic]
        except KafkaException as error:
            explained = self._errors.explain(self._consumer, error)
            raise UserError(f"cannot ask Kafka at {bootstrap}: {explained}") from error
        self._refuse_forbidden(described.error)
        if described.error is not None:
            raise UserError(f"cannot read {self._name}: {described.error.str()}; `kipwatch run` creates it")
        return list(described.partitions)

    def _refuse_forbidden(self, error: KafkaError | None) -> None:
        """Raise UserError for a missing right on the topic. A right on the group is not needed."""
        if error is not None and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            remedy = "grant Read on it (docs/run.md lists the ACLs)"
            raise UserError(f"cannot read {self._name}: {error.str()}; {remedy}")
