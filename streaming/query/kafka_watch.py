"""Watches whether Kafka serves the frames topic, while no batch finishes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaError, KafkaException, TopicCollection

from streaming.log import QUERY_LOG
from streaming.settings.kafka_client import Setting, admin_client

LATE_AFTER = 10.0
"""Seconds without a finished batch after which Kafka is asked. An idle query finishes one each trigger."""
ASK_EVERY = 5.0
ANSWER_SECONDS = 5.0


class KafkaWatch:
    """Asks Kafka for the leaders of the frames topic whenever the query is late, in a thread while entered.

    `away_at` is when the query was last known to wait for Kafka, in seconds since the epoch; 0 if never.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        settings: Mapping[str, Setting],
        latest_batch_at: Callable[[], float],
    ) -> None:
        """`settings` is the table [kafka] of the configuration. Raises UserError if it is invalid."""
        self.away_at = 0.0
        self._topic, self._latest_batch_at = topic, latest_batch_at
        self._admin = admin_client(bootstrap, settings)
        self._away = False
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kafka-watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._thread.join()

    def record_wait(self) -> None:
        """Record that the query waits for Kafka now."""
        self.away_at = time.time()

    def _run(self) -> None:
        while not self._closing.wait(ASK_EVERY):
            if self._away or time.time() - self._latest_batch_at() > LATE_AFTER:
                self._ask()

    def _ask(self) -> None:
        trouble = self._trouble()
        if trouble:
            self.record_wait()
        if bool(trouble) != self._away:
            self._away = bool(trouble)
            if trouble:
                QUERY_LOG.warning("kafka-away", reason=trouble)
            else:
                QUERY_LOG.info("kafka-back")

    def _trouble(self) -> str:
        """Return why frames cannot be read, "" if they can. An unknown topic ends the query by itself."""
        topic = TopicCollection([self._topic])
        try:
            (answer,) = self._admin.describe_topics(topic, request_timeout=ANSWER_SECONDS).values()
            partitions = answer.result().partitions
        except KafkaException as error:
            cause: KafkaError = error.args[0]
            return "" if cause.code() == KafkaError.UNKNOWN_TOPIC_OR_PART else str(cause.str())
        leaderless = sorted(partition.id for partition in partitions if partition.leader is None)
        return f"partitions without a leader: {', '.join(map(str, leaderless))}" if leaderless else ""
