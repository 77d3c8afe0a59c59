"""Looks after the frames topic while a feeder starts: creates it if it is missing, without blocking."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection

from streaming.broker.topics import frames_topic, reason
from streaming.settings.kafka_client import Setting, admin_client
from streaming.settings.topic_settings import Topics

_ANSWERS_WITHIN: Final = 30.0
# Seconds until Kafka is asked again, if it could not be asked.
_AGAIN: Final = 1.0
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


class FramesTopic:
    """Finds out whether the frames topic exists, and creates it as configured if it does not.

    Kafka may be away for as long as it likes. `is_created` is True if this object has created the topic,
    `partitions` how many it has, 0 while that is not known.
    """

    def __init__(self, bootstrap: str, name: str, topics: Topics, settings: Mapping[str, Setting]) -> None:
        """Ask Kafka. `settings` is the table [kafka] of the configuration. Raises UserError."""
        self.is_created = False
        self.partitions = 0
        self._bootstrap, self._name, self._topics = bootstrap, name, topics
        self._admin = admin_client(bootstrap, settings)
        self._problem, self._is_settled = "", False
        self._verb = "use"
        self._answer: Future[Any] | None = self._asked()
        self._ask_at = 0.0

    def problem(self) -> str:
        """Say why records cannot be published to the topic; "" if they can, or that is not known yet.

        To be called often: each call takes one step, if Kafka has answered.
        """
        if self._is_settled:
            return self._problem
        if self._answer is None:
            if time.monotonic() >= self._ask_at:
                self._answer = self._asked()
        elif self._answer.done():
            self._read(self._answer)
        return self._problem

    def wait(self, seconds: float) -> str:
        """Wait until it is known whether there is a problem, within a time limit. Returns the problem."""
        ends_at = time.monotonic() + seconds
        while not self._is_settled and time.monotonic() < ends_at:
            self.problem()
            time.sleep(0.02)
        return self._problem

    def _asked(self) -> Future[Any]:
        self._verb = "use"
        wanted = TopicCollection([self._name])
        answers: dict[str, Future[Any]] = self._admin.describe_topics(wanted, request_timeout=_ANSWERS_WITHIN)
        return answers[self._name]

    def _created(self) -> Future[Any]:
        self._verb = "create"
        wanted = [frames_topic(self._name, self._topics)]
        answers: dict[str, Future[Any]] = self._admin.create_topics(wanted, request_timeout=_ANSWERS_WITHIN)
        return answers[self._name]

    def _read(self, answer: Future[Any]) -> None:
        try:
            described = answer.result()
        except KafkaException as failure:
            self._react(failure.args[0])
        else:
            self.is_created = self._verb == "create"
            self.partitions = self._topics.frames.partitions if self.is_created else len(described.partitions)
            self._is_settled = True

    def _react(self, error: KafkaError) -> None:
        if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART and self._verb == "use":
            self._answer = self._created()
        elif error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
            # Another process has created it meanwhile, perhaps with other partitions.
            self._answer = self._asked()
        elif error.code() in _DEFINITE:
            self._problem = reason(self._verb, self._name, self._bootstrap, error)
            self._is_settled = True
        else:
            self._answer, self._ask_at = None, time.monotonic() + _AGAIN
