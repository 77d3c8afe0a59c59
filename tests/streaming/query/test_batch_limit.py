"""The limit of blocks follows the frames they hold, whatever feeders send.

Blocks that wait are counted from where the query has read to, and no further than it needs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from decoders.frame.columnar.block import FRAMES_HEADER, MOST_FRAMES, headers_of
from streaming.query import batch_limit
from streaming.query.batch_limit import (
    BATCHES_AHEAD,
    MOST_BLOCKS,
    BatchLimit,
    BlocksAhead,
    CountedBlocks,
    Waiting,
    fitting,
)

FRAMES = 1_000_000


def shares(limit: int, waiting: Sequence[Sequence[int]]) -> list[int]:
    """How many blocks Spark reads of each partition: in proportion to what waits, and none is left out."""
    total = sum(map(len, waiting))
    parts = [limit * len(each) / total if total else 0.0 for each in waiting]
    return [
        min(len(each), int(part) if part >= 1 else int(part > 0))
        for each, part in zip(waiting, parts, strict=True)
    ]


def batches(limit: BatchLimit, partitions: list[list[int]], counted: int = 1_000_000) -> list[int]:
    """The frames of each batch until the blocks of all partitions are read, `counted` of each ahead."""
    found, read_to = [], dict.fromkeys(range(len(partitions)), 0)
    while any(partitions):
        sizes = shares(limit.blocks, partitions)
        found.append(sum(sum(each[:size]) for each, size in zip(partitions, sizes, strict=True)))
        for partition, size in enumerate(sizes):
            read_to[partition] += size
            del partitions[partition][:size]
        limit.follow(found[-1], sum(sizes), read_to)
        limit.fit([Waiting(len(each), each[:counted]) for each in partitions])
    return found


@pytest.mark.parametrize("frames_per_block", [MOST_FRAMES, 3_500, 3_000, 300, 30])
def test_a_backlog_is_read_in_batches_of_so_many_frames_from_the_second_on(frames_per_block: int) -> None:
    blocks = [frames_per_block] * (5 * FRAMES // frames_per_block)
    first, *others, _ = batches(BatchLimit(FRAMES), [list(blocks), list(blocks)])
    assert first < FRAMES
    assert all(0.98 * FRAMES <= frames <= FRAMES for frames in others)


def test_the_first_smaller_blocks_after_full_ones_make_no_smaller_batch() -> None:
    """All clients connect anew, and their first frames are longer."""
    blocks = [MOST_FRAMES] * 1_000 + [2_900] * 1_000
    _, *others, _ = batches(BatchLimit(FRAMES), [list(blocks), list(blocks)])
    assert all(0.98 * FRAMES <= frames <= FRAMES for frames in others)


def test_full_blocks_after_small_ones_make_no_batch_too_large() -> None:
    """Fifty feeders with a small block every tenth of a second; then one sends all that waited for Kafka."""
    partitions = [[3] * 20_000 + [MOST_FRAMES] * 1_000, [3] * 20_000]
    found = batches(BatchLimit(FRAMES), partitions)
    assert max(found) <= FRAMES


def test_what_was_not_counted_is_taken_for_full_blocks() -> None:
    found = batches(BatchLimit(FRAMES), [[3] * 5_000 + [MOST_FRAMES] * 2_000], counted=1_000)
    assert max(found) <= FRAMES


def test_fifty_feeders_with_a_small_block_every_tenth_of_a_second_are_kept_up_with() -> None:
    """In both partitions: a batch of a second reads what they sent, if the last look is not long ago."""
    limit, sent, unseen = BatchLimit(FRAMES), 50 * 10 * 2, 100
    limit.follow(3 * sent, sent, {0: sent})
    for _ in range(6):
        limit.fit([Waiting(sent - unseen, [3] * (sent - unseen))])
        assert limit.blocks >= sent
        limit.follow(3 * sent, sent, {0: sent})


@given(
    st.lists(st.lists(st.integers(0, MOST_FRAMES), max_size=30), min_size=1, max_size=4),
    st.integers(1, 50_000),
)
def test_a_limit_is_the_largest_that_fits(waiting: list[list[int]], frames: int) -> None:
    def read(limit: int) -> int:
        return sum(sum(each[:size]) for each, size in zip(waiting, shares(limit, waiting), strict=True))

    total = sum(map(len, waiting))
    found = fitting([Waiting(len(each), each) for each in waiting], frames)
    assert found >= 1
    assert found == 1 or read(min(found, total)) <= frames
    if found < total:
        assert read(found + 1) > frames
    else:
        assert found == max(1, total + (frames - sum(itertools.chain(*waiting))) // MOST_FRAMES)


def test_a_batch_without_blocks_changes_nothing() -> None:
    limit = BatchLimit(FRAMES)
    limit.follow(3_000, 1_000, {0: 1_000})
    before = limit.blocks
    limit.follow(0, 0, {})
    assert (limit.blocks, limit.frames_per_block, limit.counts_blocks) == (before, 3.0, True)
    assert limit.read_to == {0: 1_000}


BATCH_FRAMES = 100 * MOST_FRAMES
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
    monkeypatch.setattr(batch_limit, "made", lambda *_: made)
    monkeypatch.setattr(batch_limit, "PAUSE", 0.0)
    monkeypatch.setattr(batch_limit, "IDLE_PAUSE", 0.0)
    return made


def started() -> tuple[BatchLimit, BlocksAhead]:
    limit = BatchLimit(BATCH_FRAMES)
    return limit, BlocksAhead(limit, BATCH_FRAMES, "127.0.0.1:1", TOPIC, {})


def test_while_batches_are_not_limited_no_block_is_counted(topic: Topic) -> None:
    limit, ahead = started()
    topic.add(0, *[MOST_FRAMES] * 500)
    limit.follow(30 * MOST_FRAMES, 30, {0: 30})
    ahead.look()
    assert (topic.at, limit.blocks) == ({}, 100)


def test_small_blocks_are_counted_from_where_the_query_has_read_to(topic: Topic) -> None:
    limit, ahead = started()
    topic.add(0, *[MOST_FRAMES] * 100, *[3] * 300)
    topic.add(1, *[3] * 300)
    limit.follow(200, 100, {0: 100, 1: 0})
    ahead.look()
    assert limit.blocks == 600 + (BATCH_FRAMES - 1_800) // MOST_FRAMES
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
    partition = CountedBlocks(100)
    partition.add(100, 7)
    partition.add(101 + missing, 5)
    waiting = partition.waiting(101 + missing + 10)
    assert len(waiting.counted) == counted
    assert waiting.counted[-1] == 5 and partition.sum == sum(waiting.counted)
    assert waiting.blocks == counted + 9


def test_a_block_that_a_batch_has_read_meanwhile_is_not_counted() -> None:
    """The query may read faster than the consumer that counts."""
    partition = CountedBlocks(0)
    partition.read_to(5)
    for offset in (3, 4, 5):
        partition.add(offset, 100 + offset)
    assert partition.waiting(10) == Waiting(5, [105])
    assert partition.sum == 105


def test_no_more_is_counted_than_two_batches_and_a_half(topic: Topic) -> None:
    limit, ahead = started()
    topic.add(0, *[1_000] * 20_000)
    limit.follow(200, 100, {0: 0})
    for _ in range(10):
        ahead.look()
    assert BATCHES_AHEAD * BATCH_FRAMES <= topic.at[0] * 1_000 < BATCHES_AHEAD * BATCH_FRAMES + 1_000_000
    assert limit.blocks == BATCH_FRAMES // 1_000


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


def test_when_the_query_has_caught_up_the_consumer_leaves(topic: Topic) -> None:
    limit, ahead = started()
    topic.add(0, *[3] * 500)
    limit.follow(200, 100, {0: 0})
    ahead.look()
    limit.follow(90, 30, {0: 500})
    ahead.look()
    assert (limit.blocks, topic.closed) == (100, 1)
