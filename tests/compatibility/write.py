"""Writes what this version stores, for the test of later ones: `make compatibility`."""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack, closing
from importlib.metadata import version
from pathlib import Path
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.topics import create_topics
from streaming.settings.configuration import FramesTopicSettings, Topics
from streaming.state.bucket import STATE_VERSION
from tests.compatibility.earlier import BUCKETS, JUDGED_DAYS, About, Keyed, keep
from tests.compatibility.road import Road
from tests.compatibility.week import week

FRAMES: Final = "kipwatch.frames"
ONE_PARTITION: Final = Topics(frames=FramesTopicSettings(partitions=1))
JUDGED: Final = 180.0
PUBLISHED: Final = 5.0


def main() -> None:
    """Let a query judge the first days, and publish the others."""
    days = week()
    with tempfile.TemporaryDirectory() as name, EmbeddedBroker() as broker, ExitStack() as stack:
        folder = Path(name)
        create_topics(broker.internal, FRAMES, "kipwatch.findings", ONE_PARTITION)
        road = Road(stack, folder, broker, BUCKETS)
        for packets in days[:JUDGED_DAYS]:
            road.feed(packets)
        judged = _await_judged(road, broker.internal)
        road.query.stop()
        for packets in days[JUDGED_DAYS:]:
            road.feed(packets)
        road.end_feeder()
        about = About(judged, STATE_VERSION, days[JUDGED_DAYS - 1][-1].captured_at)
        keep(version("kipwatch"), _records(broker.internal), road.checkpoint, about)


def _await_judged(road: Road, bootstrap: str) -> int:
    """Wait until nothing is left to judge; return the number of records."""
    road.query.wait_for('"query": "batch"', JUDGED)
    deadline = time.monotonic() + JUDGED
    published = 0
    while time.monotonic() < deadline:
        time.sleep(PUBLISHED)
        before, published = published, _end(bootstrap)
        if before == published and road.page().total("kipwatch_topic_lag_records") == 0:
            return published
    raise TimeoutError("the query does not come to an end")


def _end(bootstrap: str) -> int:
    with closing(Consumer({"bootstrap.servers": bootstrap, "group.id": "end"})) as consumer:
        _, end = consumer.get_watermark_offsets(TopicPartition(FRAMES, 0))
        return int(end)


def _records(bootstrap: str) -> list[Keyed]:
    """All records of the topic, whose offsets have no holes."""
    end, records = _end(bootstrap), list[Keyed]()
    with closing(Consumer({"bootstrap.servers": bootstrap, "group.id": "records"})) as consumer:
        consumer.assign([TopicPartition(FRAMES, 0, OFFSET_BEGINNING)])
        while len(records) < end:
            message = consumer.poll(30)
            assert message is not None and message.error() is None
            assert message.offset() == len(records)
            records.append((message.key() or b"", message.value() or b""))
    return records


if __name__ == "__main__":
    main()
