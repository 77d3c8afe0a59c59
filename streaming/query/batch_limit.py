"""How many blocks a micro-batch may read, so that it has about as many frames as are configured.

Spark limits a batch by offsets, which are blocks here: a block of a busy feeder has thousands of frames, one
of an idle feeder three. While blocks are nearly full, the limit is the number of full blocks that hold the
configured frames. While they are smaller, the frames of the blocks that wait are counted
(`blocks_ahead.py`), and the limit is the number of those that fit. A block that was not counted yet is taken
for a full one, so no batch has more frames than are configured.

Spark asks the source for its limit when the query starts, and passes that limit to the source before each
batch. A new one takes its place in between; the source itself is not touched.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from pyspark.sql import SparkSession

from decoders.frame.columnar.block import MOST_FRAMES
from streaming.judging.report import Report

NEARLY_FULL: Final = 0.75 * MOST_FRAMES
"""Frames of a block from which on the number of full blocks is a good limit."""


class Waiting(NamedTuple):
    """The blocks of a partition that no batch has read: how many, and the frames of the first of them."""

    blocks: int
    counted: Sequence[int]


class BatchLimit:
    """The limit of blocks for `frames` frames.

    `frames_per_block` is that of the latest batch with blocks, `read_to` the offset behind the blocks that
    were read of each partition. `counts_blocks` says whether the blocks that wait must be counted.
    """

    def __init__(self, frames: int) -> None:
        self._frames = frames
        self.frames_per_block = 1.0
        self.blocks = self._least = max(1, frames // MOST_FRAMES)
        self.read_to: dict[int, int] = {}
        self.counts_blocks = False
        self._lock = threading.Lock()

    def follow(self, frames: int, blocks: int, read_to: Mapping[int, int]) -> None:
        """Follow a batch that had `frames` frames in `blocks` blocks."""
        with self._lock:
            self.read_to |= read_to
            if blocks:
                self.frames_per_block = frames / blocks
                is_limited = 2 * blocks >= self._least
                self.counts_blocks = is_limited and self.frames_per_block < NEARLY_FULL
                self.blocks = self._least

    def fit(self, waiting: Sequence[Waiting]) -> None:
        """Let the next batch read as many of the blocks that wait as fit."""
        with self._lock:
            if self.counts_blocks:
                self.blocks = max(self._least, fitting(waiting, self._frames))

    def followed(self, reports: Iterable[Report]) -> Iterator[Report]:
        """Yield the reports of a batch, and then follow it."""
        frames = blocks = 0
        read_to: dict[int, int] = {}
        for report in reports:
            frames += sum(report.captured.values())
            blocks += report.blocks
            for partition, offset in report.read_to.items():
                read_to[partition] = max(offset, read_to.get(partition, 0))
            yield report
        self.follow(frames, blocks, read_to)

    def apply(self, query: Any, session: SparkSession) -> None:
        """Set the limit for the next batch of a StreamingQuery of a session."""
        jvm: Any = session.sparkContext._jvm
        limit = jvm.org.apache.spark.sql.connector.read.streaming.ReadLimit.maxRows(self.blocks)
        execution = query._jsq.streamingQuery()
        sources = execution.uniqueSources()
        for source in _keys(sources):
            sources = sources.updated(source, limit)
        getattr(execution, "uniqueSources_$eq")(sources)


def fitting(waiting: Sequence[Waiting], frames: int) -> int:
    """Return the largest limit of blocks with which a batch has at most `frames` frames, at least 1.

    Spark divides a limit among the partitions in proportion to the blocks that wait in each.
    """
    total = sum(each.blocks for each in waiting)
    sums = [np.cumsum([0, *each.counted]) for each in waiting]

    def read(limit: int) -> int:
        shares = (_share(limit, each.blocks, total) for each in waiting)
        return sum(map(_frames_of, sums, shares))

    everything = read(total)
    if everything <= frames:
        return max(1, total + (frames - everything) // MOST_FRAMES)
    least, most = 1, total
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (middle, most) if read(middle) <= frames else (least, middle)
    return least


def _share(limit: int, blocks: int, total: int) -> int:
    """Return how many blocks Spark reads of a partition; it leaves none out."""
    share = limit * blocks / total if total else 0.0
    return min(blocks, int(share) if share >= 1 else int(share > 0))


def _frames_of(sums: Any, blocks: int) -> int:
    """Return the frames of the first blocks; those that were not counted are taken for full ones."""
    counted = min(blocks, len(sums) - 1)
    return int(sums[counted]) + (blocks - counted) * MOST_FRAMES


def _keys(mapping: Any) -> list[Any]:
    iterator, keys = mapping.keysIterator(), []
    while iterator.hasNext():
        keys.append(iterator.next())
    return keys
