"""Blocks that wait are counted from where the query has read to, and no further than it needs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from decoders.frame.columnar.block import FRAMES_HEADER, MOST_FRAMES, headers_of
from streaming.query import blocks_ahead
from streaming.query.batch_limit import BatchLimit
from streaming.query.blocks_ahead import BATCHES_AHEAD, MOST_BLOCKS, BlocksAhead, Counted

FRAMES = 100 * MOST_FRAMES
TOPIC = "frames"


class Block:
    """A record of the topic."""

    def __init__(self, partition: int, offset: int, headers: list[tuple[str, bytes]] | None) -> None:
        self._place, self._headers = (partition, offset), headers

    def partition(self) -> int:
        return self._place[0]

    def offset(self) -> int:
        return self._place[1]

    def headers(self) -> list[tuple[str, bytes]] | None:
        return self._headers

    def error(self) -> None:
        return None


class Topic:
    """Stands for the topic and its consumers: the headers of the blocks of each partition."""

    def __init__(self) -> None:
        self.partitions: dict[int, list[list[tuple[str, bytes]] | None]] = {0: [], 1: []}
        self.at: dict[int, int] = {}
        self.closed = 0
        self.refuses = False

    def add(self, partition: int, *frames: int) -> None:
        self.partitions[partition] += [headers_of(each) for each in frames]

    def incremental_assign(self, places: list[TopicPartition]) -> None:
        if self.refuses:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        self.at |= {place.partition: place.offset for place in places}

    def consume(self, count: int, _seconds: float) -> list[Any]:
        return list(self._next(count))

    def _next(self, count: int) -> Iterator[Block]:
        for partition, begin in self.at.items():
            for offset in range(begin, min(len(self.partitions[partition]), begin + count)):
                yield Block(partition, offset, self.partitions[partition][offset])
                self.at[partition] = offset + 1

    def get_watermark_offsets(self, place: TopicPartition, *, cached: bool) -> tuple[int, int]:
        assert cached
        return 0, len(self.partitions[place.partition])

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Topic:
    made = Topic()
    monkeypatch.setattr(blocks_ahead, "made", lambda *_: made)
    monkeypatch.setattr(blocks_ahead, "PAUSE", 0.0)
    monkeypatch.setattr(blocks_ahead, "IDLE_PAUSE", 0.0)
    return made


def started() -> tuple[BatchLimit, BlocksAhead]:
    limit = BatchLimit(FRAMES)
    return limit, BlocksAhead(limit, FRAMES, "127.0.0.1:1", TOPIC, {})


def test_while_blocks_are_large_or_few_none_is_counted(topic: Topic) -> None:
    limit, ahead = started()
    topic.add(0, *[MOST_FRAMES] * 500)
    limit.follow(100 * MOST_FRAMES, 100, {0: 100})
    ahead.look()
    limit.follow(90, 30, {0: 130})
    ahead.look()
    assert (topic.at, limit.blocks) == ({}, 100)


def test_small_blocks_are_counted_from_where_the_query_has_read_to(topic: Topic) -> None:
    limit, ahead = started()
    topic.add(0, *[MOST_FRAMES] * 100, *[3] * 300)
    topic.add(1, *[3] * 300)
    limit.follow(200, 100, {0: 100, 1: 0})
    ahead.look()
    assert limit.blocks == 600 + (FRAMES - 1_800) // MOST_FRAMES
    topic.add(1, *[MOST_FRAMES] * 400)
    ahead.look()
    assert 300 < limit.blocks < 600


def test_what_a_batch_has_read_no_longer_waits(topic: Topic) -> None:
    limit, ahead = started()
    topic.add(0, *[3] * 200, *[MOST_FRAMES] * 300)
    limit.follow(200, 100, {0: 0})
    ahead.look()
    assert limit.blocks == 200 + 99
    limit.follow(600, 200, {0: 200})
    ahead.fit()
    assert limit.blocks == 100


@pytest.mark.parametrize(("missing", "counted"), [(3, 5), (MOST_BLOCKS, MOST_BLOCKS + 2), (10_000_000, 1)])
def test_offsets_that_kafka_has_deleted_take_no_memory(missing: int, counted: int) -> None:
    """A query that was away for longer than frames are kept goes on behind millions of them."""
    partition = Counted(100)
    partition.add(100, 7)
    partition.add(101 + missing, 5)
    waiting = partition.waiting(101 + missing + 10)
    assert len(waiting.counted) == counted
    assert waiting.counted[-1] == 5 and partition.sum == sum(waiting.counted)
    assert waiting.blocks == counted + 9


def test_no_more_is_counted_than_two_batches_and_a_half(topic: Topic) -> None:
    limit, ahead = started()
    topic.add(0, *[1_000] * 20_000)
    limit.follow(200, 100, {0: 0})
    for _ in range(10):
        ahead.look()
    assert BATCHES_AHEAD * FRAMES <= topic.at[0] * 1_000 < BATCHES_AHEAD * FRAMES + 1_000_000
    assert limit.blocks == FRAMES // 1_000


@pytest.mark.parametrize(
    "headers",
    [
        None,
        [],
        *([(FRAMES_HEADER, value)] for value in (b"many", b"99999", b"9" * 5_000)),
    ],
)
def test_a_block_that_does_not_tell_its_frames_is_taken_for_a_full_one(
    topic: Topic, headers: list[tuple[str, bytes]] | None
) -> None:
    limit, ahead = started()
    topic.partitions[0] += [headers] * 200
    limit.follow(200, 100, {0: 0})
    ahead.look()
    assert limit.blocks == 100


def test_while_kafka_refuses_the_limit_is_that_of_full_blocks(topic: Topic) -> None:
    limit, ahead = started()
    topic.add(0, *[3] * 500)
    topic.refuses = True
    limit.follow(200, 100, {0: 0})
    ahead.look()
    assert (limit.blocks, topic.closed) == (100, 1)
    topic.refuses = False
    ahead.look()
    assert limit.blocks > 500


def test_when_blocks_are_large_again_the_consumer_leaves(topic: Topic) -> None:
    limit, ahead = started()
    topic.add(0, *[3] * 500)
    limit.follow(200, 100, {0: 0})
    ahead.look()
    limit.follow(400_000, 100, {0: 500})
    ahead.look()
    assert (limit.blocks, topic.closed) == (100, 1)
