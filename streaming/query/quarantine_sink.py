"""The quarantine's topic: each record of the frames topic that is no block, keyed by its place there.

Judging needs no quarantine: what cannot be written is counted and logged, and no batch is judged again. A
record that the topic does not take for its size is written without its bytes, lest one of a stranger's keep
all others out.
"""

from __future__ import annotations

import enum
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec
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
        own = {
            "message.timeout.ms": round(WRITTEN_WITHIN * _MILLISECONDS),
            # A broker takes or refuses a producer's batch as a whole.
            "batch.num.messages": 1,
        }
        client = {**librdkafka_settings(bootstrap, settings), **own, "logger": KAFKA_LOG.logger}
        self._producer = made(Producer, client)
        self._reasons: list[str] = []
        self._too_large: list[Quarantined] = []
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
        self._too_large.clear()
        unsettled = self._send(records)
        too_large, self._too_large = self._too_large, []
        if too_large:
            unsettled += self._send([msgspec.structs.replace(record, value=b"") for record in too_large])
        failed = len(self._reasons) + unsettled
        if failed:
            self._again_at = time.monotonic() + AGAIN_AFTER
            reason = self._reasons[-1] if self._reasons else "no answer in time"
            QUERY_LOG.warning("not-quarantined", records=failed, line=f"{self._topic}: {reason}")
        return Counter({Fate.WRITTEN: len(records) - failed, Fate.FAILED: failed})

    def _send(self, records: Iterable[Quarantined]) -> int:
        """Send records, and return of how many nothing is known. `_reasons` and `_too_large` have the others.

        The wait is longer than a record may take: each is either written or has failed then.
        """
        for record in records:
            try:
                self._producer.produce(
                    self._topic,
                    record.value,
                    record.key,
                    headers=_headers(record),
                    on_delivery=partial(self._on_delivery, record),
                )
            except BufferError as full:
                self._reasons.append(str(full))
            except KafkaException as failed:
                self._on_delivery(record, failed.args[0])
        unsettled: int = self._producer.flush(2 * WRITTEN_WITHIN)
        return unsettled

    def _on_delivery(
        self, record: Quarantined, error: KafkaError | None, _message: Message | None = None
    ) -> None:
        if error is None:
            return
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE and record.value:
            self._too_large.append(record)
        else:
            self._reasons.append(error.str())


def _headers(record: Quarantined) -> list[tuple[str, bytes]]:
    return [
        ("kipwatch-reason", record.reason.encode()),
        ("kipwatch-topic", record.topic.encode()),
        ("kipwatch-partition", b"%d" % record.partition),
        ("kipwatch-offset", b"%d" % record.offset),
        ("kipwatch-size", b"%d" % record.size),
    ]
