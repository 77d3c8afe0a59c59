"""How many blocks a micro-batch may read, so that it has about as many frames as are configured.

Spark limits a batch by offsets, which are blocks here: a block of a busy feeder has thousands of frames, one
of an idle feeder three. So the limit follows the frames that the blocks of the latest batch had. It is never
below the number of full blocks that hold the configured frames. Full blocks may follow small ones, and nobody
knows before they are read. So it is above that only while as many small blocks come: it is at most twice the
blocks of the latest batch, and at most a multiple of the least.

Spark asks the source for its limit when the query starts, and passes that limit to the source before each
batch. A new one takes its place in between; the source itself is not touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from pyspark.sql import SparkSession

from decoders.frame.columnar.block import MOST_FRAMES
from streaming.judging.report import Report

MOST_TIMES: Final = 16
"""How many times the number of full blocks a batch may read of small ones, and so how much too large one may
get."""
GROWTH: Final = 2
"""How many times the blocks of the latest batch the next one may read."""


class BatchLimit:
    """The limit of blocks for `frames` frames. `frames_per_block` is that of the latest batch with blocks."""

    def __init__(self, frames: int) -> None:
        self._frames = frames
        self.frames_per_block = 1.0
        self.blocks = self._least = max(1, frames // MOST_FRAMES)

    def follow(self, frames: int, blocks: int) -> None:
        """Follow a batch that had `frames` frames in `blocks` blocks."""
        if blocks:
            self.frames_per_block = frames / blocks
            fitting = int(self._frames / max(1.0, self.frames_per_block))
            most = min(GROWTH * blocks, MOST_TIMES * self._least)
            self.blocks = max(self._least, min(fitting, most))

    def followed(self, reports: Iterable[Report]) -> Iterator[Report]:
        """Yield the reports of a batch, and then follow it."""
        frames = blocks = 0
        for report in reports:
            frames += sum(report.captured.values())
            blocks += report.blocks
            yield report
        self.follow(frames, blocks)

    def apply(self, query: Any, session: SparkSession) -> None:
        """Set the limit for the next batch of a StreamingQuery of a session."""
        jvm: Any = session.sparkContext._jvm
        limit = jvm.org.apache.spark.sql.connector.read.streaming.ReadLimit.maxRows(self.blocks)
        execution = query._jsq.streamingQuery()
        sources = execution.uniqueSources()
        for source in _keys(sources):
            sources = sources.updated(source, limit)
        getattr(execution, "uniqueSources_$eq")(sources)


def _keys(mapping: Any) -> list[Any]:
    iterator, keys = mapping.keysIterator(), []
    while iterator.hasNext():
        keys.append(iterator.next())
    return keys
