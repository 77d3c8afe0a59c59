"""The limit of blocks follows the frames they hold, whatever feeders send."""

from __future__ import annotations

import math

import pytest

from decoders.frame.columnar.block import MOST_FRAMES
from streaming.query.batch_limit import GROWTH, MOST_TIMES, BatchLimit

FRAMES = 1_000_000


def batches(limit: BatchLimit, frames_per_block: float, waiting: int) -> list[int]:
    """The frames of each batch while so many blocks of a kind are read."""
    found = []
    while waiting:
        blocks = min(waiting, limit.blocks)
        waiting -= blocks
        found.append(round(blocks * frames_per_block))
        limit.follow(found[-1], blocks)
    return found


@pytest.mark.parametrize("frames_per_block", [MOST_FRAMES, 3_000, 2_100])
def test_a_backlog_of_full_blocks_is_read_in_batches_of_the_frames_that_are_allowed(
    frames_per_block: int,
) -> None:
    first, *others, _ = batches(BatchLimit(FRAMES), frames_per_block, 20_000)
    assert first <= FRAMES
    assert all(0.75 * FRAMES <= frames <= FRAMES for frames in others)


def test_a_backlog_of_smaller_blocks_is_read_in_such_batches_too() -> None:
    growing, others = [], batches(BatchLimit(FRAMES), 300, 40_000)[:-1]
    while others[0] < 0.75 * FRAMES:
        growing.append(others.pop(0))
    assert len(growing) <= math.log(MOST_TIMES, GROWTH)
    assert all(0.75 * FRAMES <= frames <= FRAMES for frames in others)


def test_fifty_feeders_with_a_small_block_every_tenth_of_a_second_are_kept_up_with() -> None:
    """In both partitions: a batch of a second may read more blocks than they send in it."""
    limit, sent, waiting = BatchLimit(FRAMES), 50 * 10 * 2, 0
    for _ in range(6):
        blocks = min(waiting + sent, limit.blocks)
        waiting += sent - blocks
        limit.follow(3 * blocks, blocks)
    assert (waiting, limit.blocks) == (0, GROWTH * sent)


@pytest.mark.parametrize(("small_blocks", "times"), [(60, 1), (200, 2), (1_000, 9), (20_000, MOST_TIMES)])
def test_full_blocks_after_small_ones_make_one_batch_too_large_by_a_known_factor(
    small_blocks: int, times: int
) -> None:
    """The query kept up with small blocks; then a feeder sends all that waited for Kafka."""
    limit = BatchLimit(FRAMES)
    limit.follow(3 * small_blocks, small_blocks)
    first, second, *_ = batches(limit, MOST_FRAMES, 20_000)
    assert first <= times * FRAMES
    assert second <= FRAMES


def test_a_batch_without_blocks_changes_nothing() -> None:
    limit = BatchLimit(FRAMES)
    limit.follow(3_000, 1_000)
    before = limit.blocks
    limit.follow(0, 0)
    assert (limit.blocks, limit.frames_per_block) == (before, 3.0)
