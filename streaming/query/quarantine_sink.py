"""The quarantine's topic: each record of the frames topic that is no block, keyed by its place there.

Judging needs no quarantine: what cannot be written is counted and logged, and no batch is judged again.
"""

from __future__ import annotations

import enum
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from streaming.judging.quarantine import NO_BLOCK, Quarantined
from streaming.judging.report import Report
from streaming.log import KAFKA_LOG, QUERY_LOG
from streaming.settings.kafka_client import Setting, librdkafka_settings, made

WRITTEN_WITHIN: Final = 5.0
"""Seconds that a record may take to be written; a batch waits for it."""
AGAIN_AFTER: Final = 60.0
"""Seconds after a failure in which nothing is written, so that no batch waits for a topic that is gone."""
_MILLISECONDS: Final = 1000


class Fate(enum.StrEnum):
    """What became of a record that is no block."""

    WRITTEN = "written"
    LEFT_OUT = "left-out"
    FAILED = "failed"


class QuarantineSink:
    """Writes what the reports of a batch hold for the quarantine."""

    def __init__(
        self, bootstrap: str, topic: str, settings: Mapping[str, Setting], problem: str = ""
    ) -> None:
        """`settings` is the table [kafka] of the configuration. With a `problem` nothing is written, ever.

        Raises UserError if the table is invalid.
        """
        self._topic = topic
        timeout = {"message.timeout.ms": round(WRITTEN_WITHIN * _MILLISECONDS)}
        client = {**librdkafka_settings(bootstrap, settings), **timeout, "logger": KAFKA_LOG.logger}
        self._producer = made(Producer, client)
        self._reasons: list[str] = []
        self._again_at = 0.0
        if problem:
            self._again_at = float("inf")
            QUERY_LOG.warning("no-quarantine", line=problem)

    def write(self, reports: Iterable[Report]) -> Counter[Fate]:
        """Write the records of a batch; return how many had each fate. Raises nothing."""
        fates = Counter[Fate]()
        for report in reports:
            fates[Fate.LEFT_OUT] += report.undecodable.get(NO_BLOCK, 0) - len(report.quarantined)
            fates += self._write(report.quarantined)
        return fates

    def _write(self, records: Sequence[Quarantined]) -> Counter[Fate]:
        if time.monotonic() < self._again_at:
            return Counter({Fate.FAILED: len(records)})
        self._reasons.clear()
        for record in records:
            self._send(record)
        # Longer than a record may take: each is either written or has failed then.
        unsettled = self._producer.flush(2 * WRITTEN_WITHIN)
        failed = len(self._reasons) + unsettled
        if failed:
            self._again_at = time.monotonic() + AGAIN_AFTER
            reason = self._reasons[-1] if self._reasons else "no answer in time"
            QUERY_LOG.warning("not-quarantined", records=failed, line=f"{self._topic}: {reason}")
        return Counter({Fate.WRITTEN: len(records) - failed, Fate.FAILED: failed})

    def _send(self, record: Quarantined) -> None:
        headers = [
            ("kipwatch-reason", record.reason.encode()),
            ("kipwatch-topic", record.topic.encode()),
            ("kipwatch-partition", b"%d" % record.partition),
            ("kipwatch-offset", b"%d" % record.offset),
            ("kipwatch-size", b"%d" % record.size),
        ]
        try:
            self._producer.produce(
                self._topic, record.value, record.key, headers=headers, on_delivery=self._on_delivery
            )
        except (BufferError, KafkaException) as failed:
            self._reasons.append(failed.args[0].str() if isinstance(failed, KafkaException) else str(failed))

    def _on_delivery(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._reasons.append(error.str())
