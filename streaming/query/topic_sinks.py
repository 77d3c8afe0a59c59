"""The two topics that the query writes: findings, and the quarantine.

**Findings:** one JSON document per finding, keyed by its ID, so that compaction keeps the latest. A batch is
repeated until all its findings are acknowledged, apart from those that Kafka refuses for good.

**Quarantine:** each record of the frames topic that is no block, keyed by its place there. Judging needs no
quarantine: records that cannot be written are counted and logged, and no batch is judged again. A record that
is too large for the topic is written without its bytes, so that it cannot keep all others out.
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

from expectations.judging.finding import Finding
from streaming.judging.bucket_input import NO_BLOCK, Quarantined
from streaming.judging.report import Report
from streaming.log import KAFKA_LOG, QUERY_LOG
from streaming.settings.kafka_client import Setting, librdkafka_settings, made

FLUSH_SECONDS = 30.0
POLL_SECONDS = 0.1
_REFUSALS: Final = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD})
"""Errors after which sending a finding again is of no use."""
WRITTEN_WITHIN: Final = 5.0
"""Seconds that a record may take to be written; a batch waits for it."""
AGAIN_AFTER: Final = 60.0
"""Seconds without writes after a failure, so that not every batch waits for a topic that is gone."""
_MILLISECONDS: Final = 1000
_LOGGING: Final = {"logger": KAFKA_LOG.logger, "log_level": 2}
"""Only what is fatal. Failed connections are two lines a second, and wait in memory while no batch ends;
`KafkaWatch` says why Kafka is away."""


class FindingsNotWrittenError(RuntimeError):
    """The findings of a batch did not reach the topic; the batch is repeated."""


class FindingsSink:
    """Writes findings and waits until Kafka acknowledges them."""

    def __init__(self, bootstrap: str, topic: str, settings: Mapping[str, Setting]) -> None:
        """`settings` is the table [kafka] of the configuration. Raises UserError if it is invalid."""
        self._topic = topic
        client = librdkafka_settings(bootstrap, settings)
        self._producer = made(Producer, {**client, "enable.idempotence": True, "linger.ms": 5, **_LOGGING})
        self._failures: set[str] = set()
        self._in_large_batches: list[tuple[bytes, bytes]] = []
        """Keys and values of findings in batches that were too large for the broker."""
        self._refused = 0

    def write(self, findings: Iterable[Finding]) -> int:
        """Write findings. Logs those that Kafka refuses for good, and returns their number.

        Waits while the producer's queue is full. Raises FindingsNotWrittenError if one of the others is not
        acknowledged, or if nothing is acknowledged for FLUSH_SECONDS.
        """
        self._failures.clear()
        self._in_large_batches.clear()
        self._refused = 0
        for finding in findings:
            self._send(finding)
        self._flush()
        if not self._failures:
            self._send_one_by_one()
        if self._failures:
            reasons = "; ".join(sorted(self._failures))
            raise FindingsNotWrittenError(f"findings were not written to {self._topic}: {reasons}")
        return self._refused

    def _flush(self) -> None:
        if self._producer.flush(FLUSH_SECONDS):
            self._failures.add("no answer in time")

    def _send_one_by_one(self) -> None:
        """Send findings of batches that were too large again, each in a batch of its own."""
        refused, self._in_large_batches = self._in_large_batches, []
        for key, value in refused:
            self._producer.produce(self._topic, key=key, value=value, on_delivery=self._on_delivery_alone)
            self._flush()

    def _send(self, finding: Finding) -> None:
        value = msgspec.json.encode(finding)
        deadline = time.monotonic() + FLUSH_SECONDS
        while time.monotonic() < deadline:
            try:
                self._producer.produce(
                    self._topic, key=finding.id, value=value, on_delivery=self._on_delivery
                )
            except BufferError:
                # Room is made by acknowledgments, which `poll` processes.
                if self._producer.poll(POLL_SECONDS):
                    deadline = time.monotonic() + FLUSH_SECONDS
            except KafkaException as failed:
                self._record(failed.args[0], finding.id)
                return
            else:
                return
        raise FindingsNotWrittenError(f"findings were not written to {self._topic}: the queue stays full")

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            self._in_large_batches.append((message.key() or b"", message.value() or b""))
        else:
            self._on_delivery_alone(error, message)

    def _on_delivery_alone(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._record(error, (message.key() or b"").decode())

    def _record(self, error: KafkaError, finding_id: str) -> None:
        if error.code() in _REFUSALS:
            self._refused += 1
            QUERY_LOG.warning("finding-refused", id=finding_id, error=error.name(), message=error.str())
        else:
            self._failures.add(error.str())


class QuarantineFate(enum.StrEnum):
    """The fate of a record that is no block. LEFT_OUT: there were too many."""

    WRITTEN = "written"
    LEFT_OUT = "left-out"
    FAILED = "failed"


class QuarantineSink:
    """Writes what the reports of a batch hold for the quarantine."""

    def __init__(
        self, bootstrap: str, topic: str, settings: Mapping[str, Setting], problem: str = ""
    ) -> None:
        """`settings` is the table [kafka] of the configuration. With a `problem` nothing is ever written.

        Raises UserError if the table is invalid.
        """
        self._topic = topic
        own = {
            "message.timeout.ms": round(WRITTEN_WITHIN * _MILLISECONDS),
            # A broker takes or refuses a producer's batch as a whole.
            "batch.num.messages": 1,
        }
        client = {**librdkafka_settings(bootstrap, settings), **own, **_LOGGING}
        self._producer = made(Producer, client)
        self._reasons: list[str] = []
        self._too_large: list[Quarantined] = []
        self._again_at = 0.0
        if problem:
            self._again_at = float("inf")
            QUERY_LOG.warning("no-quarantine", line=problem)

    def write(self, reports: Iterable[Report]) -> Counter[QuarantineFate]:
        """Write the records of a batch; return how many had each fate. Raises nothing."""
        fates = Counter[QuarantineFate]()
        for report in reports:
            fates[QuarantineFate.LEFT_OUT] += report.undecodable.get(NO_BLOCK, 0) - len(report.quarantined)
            fates += self._write(report.quarantined)
        return fates

    def _write(self, records: Sequence[Quarantined]) -> Counter[QuarantineFate]:
        if time.monotonic() < self._again_at:
            return Counter({QuarantineFate.FAILED: len(records)})
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
        return Counter({QuarantineFate.WRITTEN: len(records) - failed, QuarantineFate.FAILED: failed})

    def _send(self, records: Iterable[Quarantined]) -> int:
        """Send records. Fills `_reasons` and `_too_large`, and returns how many records are in doubt.

        Usually none: the wait is longer than a record may take to be written or to fail.
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
