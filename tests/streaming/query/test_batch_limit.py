"""The limit of blocks follows the frames they hold, whatever feeders send."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.frame.columnar.block import MOST_FRAMES
from streaming.query.batch_limit import BatchLimit, Waiting, fitting

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


@pytest.mark.parametrize("frames_per_block", [MOST_FRAMES, 3_500, 3_100])
def test_nearly_full_blocks_are_limited_without_counting(frames_per_block: int) -> None:
    limit = BatchLimit(FRAMES)
    first, *others, _ = batches(limit, [[frames_per_block] * 10_000, [frames_per_block] * 10_000])
    assert first <= FRAMES
    assert all(0.75 * FRAMES <= frames <= FRAMES for frames in others)
    assert not limit.counts_blocks


@pytest.mark.parametrize("frames_per_block", [3_000, 300, 30])
def test_a_backlog_of_smaller_blocks_is_read_in_such_batches_from_the_second_on(
    frames_per_block: int,
) -> None:
    blocks = [frames_per_block] * (5 * FRAMES // frames_per_block)
    first, *others, _ = batches(BatchLimit(FRAMES), [list(blocks), list(blocks)])
    assert first < FRAMES
    assert all(0.75 * FRAMES <= frames <= FRAMES for frames in others)


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
