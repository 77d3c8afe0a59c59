"""How far a query is, seen from outside: metrics page, backlog, stage in words, and whether it stalls.

The demo waits as long as anything moves, so a slow machine does not fail. Meanwhile it tells what the query
does: Spark starts, Kafka is away, the first batch runs.
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from streaming.metrics.exposition import MetricsPage

TIMEOUT = 5.0
"""Seconds to wait for a page."""
RESPONSE_SECONDS: Final = 10.0
"""Seconds to wait for the end of the topic."""

Offsets = dict[int, int]
"""The offset after the last block, by partition."""
BUSY: Final = 1.5
"""The load of a core from which a machine counts as busy."""
STALLED_SECONDS: Final = 300.0
"""Seconds without a move after which a query counts as stalled.

On two cores with a load of 15, some steps of Spark's start show nothing for 40 s."""
NOTED_SECONDS: Final = 60.0


def scrape(address: str) -> MetricsPage | None:
    """Read the page at host:port, None if there is no response."""
    try:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=TIMEOUT) as response:
            return MetricsPage.parsed(response.read().decode())
    except (urllib.error.URLError, OSError):
        return None


class Backlog:
    """Compares the end of the frames topic with the offsets of the latest finished batch."""

    def __init__(self, bootstrap: str, topic: str, checkpoint: Path) -> None:
        self._topic, self._checkpoint = topic, checkpoint
        # It joins no group, but the client demands a group ID.
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "kipwatch-demo-backlog", "log_level": 0}
        )

    def end(self) -> Offsets | None:
        """Return the present end of the topic, None if Kafka does not respond."""
        try:
            topic = self._consumer.list_topics(self._topic, RESPONSE_SECONDS).topics[self._topic]
            return {
                partition: self._consumer.get_watermark_offsets(
                    TopicPartition(self._topic, partition), RESPONSE_SECONDS
                )[1]
                for partition in topic.partitions
            }
        except (KafkaException, TypeError):  # get_watermark_offsets returns None after a timeout
            return None

    def judged(self) -> Offsets:
        """Return the end of the latest finished batch, empty if none has finished."""
        return judged_offsets(self._checkpoint, self._topic)

    def close(self) -> None:
        """Close the connection to Kafka."""
        self._consumer.close()


def waiting(end: Offsets, judged: Offsets) -> int:
    """Return how many blocks before `end` are not judged."""
    return sum(max(0, offset - judged.get(partition, 0)) for partition, offset in end.items())


def judged_offsets(checkpoint: Path, topic: str) -> Offsets:
    """Read the end of the latest finished batch from the files of a local checkpoint.

    The file of a batch in `offsets` ends with a line of JSON, offsets by topic and partition; a file of the
    same name in `commits` says that the batch has finished.
    """
    finished = [int(file.name) for file in (checkpoint / "commits").glob("*") if file.name.isdecimal()]
    if not finished:
        return {}
    last_line = (checkpoint / "offsets" / str(max(finished))).read_text().splitlines()[-1]
    return {int(partition): offset for partition, offset in json.loads(last_line).get(topic, {}).items()}


def last_event(log: Path) -> dict[str, Any]:
    """Return the last event of the query's log, empty if there is none. Other lines are Spark's."""
    written, _, _ = log.read_text(errors="replace").rpartition("\n")
    for line in reversed(written.splitlines()):
        if line.startswith('{"query": '):
            event: dict[str, Any] = json.loads(line)
            return event
    return {}


def stage(event: dict[str, Any], has_judged: bool) -> str:
    """Describe what keeps the query from judging; "" once it has judged a frame and has no trouble.

    `event` is the last one that it has logged.
    """
    trouble = _trouble(event)
    if has_judged or trouble:
        return trouble
    match event.get("query"):
        case "starting-workers":
            return f"Spark starts its Python workers for the first batch, tasks done: {event['tasks']}"
        case "started" | "kafka-back":
            return "Spark runs, the first batch begins"
        case "starting-spark":
            return "Spark starts"
        case "loading" | None:
            return "the query is loading"
        case _:
            return "Spark runs, the first batch ends"


def _trouble(event: dict[str, Any]) -> str:
    match event.get("query"):
        case "kafka-away":
            return f"the query waits for Kafka: {event['reason']}"
        case "ended":
            return f"the query ended and starts again: {event['line']}"
        case _:
            return ""


def finding_note(has_finding: bool, has_planted: bool, waits: int) -> str:
    """Explain why there is no finding yet; "" once there is one."""
    if has_finding:
        return ""
    if not has_planted:
        return "no finding yet: no offence is planted so far"
    if waits:
        return "no finding yet: the planted offences wait to be judged"
    return "no finding yet: a batch writes its findings when it ends"


def load_note() -> str:
    """State that the machine is busy; "" if it is not."""
    load, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
    return f"this machine is busy: load {load:.1f} on {cores} cores" if load > BUSY * cores else ""


class Standstill:
    """Measures how long nothing has moved. Times are in seconds of any one clock."""

    def __init__(self, now: float, limit: float) -> None:
        self.limit = limit
        self._signs: object = None
        self._moved_at = now

    def observe(self, signs: object, now: float) -> None:
        """Compare the signs of progress with the last ones. A difference is a move."""
        if signs != self._signs:
            self._signs, self._moved_at = signs, now

    def still_for(self, now: float) -> float:
        """Return for how long nothing has moved."""
        return now - self._moved_at

    def is_over(self, now: float) -> bool:
        """Whether nothing has moved for longer than the limit."""
        return self.still_for(now) > self.limit

    def note(self, now: float) -> str:
        """State that nothing moves; "" if something did within a minute."""
        still = self.still_for(now)
        if still < NOTED_SECONDS:
            return ""
        return f"nothing has moved for {still:.0f} s, the demo gives up after {self.limit:.0f} s"
