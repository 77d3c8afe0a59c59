"""Counts the blocks of the frames topic that the query has not judged yet, by its checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

RESPONSE_SECONDS: Final = 10.0
"""How long Kafka may take to tell where the topic ends."""

Offsets = dict[int, int]
"""The offset after the last block, by partition."""


class Backlog:
    """Compares the end of the frames topic with the offsets of the latest finished batch."""

    def __init__(self, bootstrap: str, topic: str, checkpoint: Path) -> None:
        self._topic, self._checkpoint = topic, checkpoint
        # It joins no group: Kafka's client demands a name for one that it never uses.
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "kipwatch-demo-backlog", "log_level": 0}
        )

    def end(self) -> Offsets | None:
        """Return where the topic ends now; None if Kafka does not respond."""
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
        """Return where the latest finished batch ended; empty if none has finished."""
        return judged_offsets(self._checkpoint, self._topic)

    def close(self) -> None:
        """Close the connection to Kafka."""
        self._consumer.close()


def waiting(end: Offsets, judged: Offsets) -> int:
    """Return how many blocks up to an end are not judged."""
    return sum(max(0, offset - judged.get(partition, 0)) for partition, offset in end.items())


def judged_offsets(checkpoint: Path, topic: str) -> Offsets:
    """Read where the latest finished batch of a local checkpoint ended, of the files that Spark writes.

    The file of a batch in `offsets` ends with a line of JSON, offsets by topic and partition; a file of the
    same name in `commits` says that the batch has finished.
    """
    finished = [int(file.name) for file in (checkpoint / "commits").glob("*") if file.name.isdecimal()]
    if not finished:
        return {}
    last_line = (checkpoint / "offsets" / str(max(finished))).read_text().splitlines()[-1]
    return {int(partition): offset for partition, offset in json.loads(last_line).get(topic, {}).items()}
