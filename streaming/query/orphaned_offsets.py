"""What a driver that was killed may leave of the very first batch: a file that has not come to its place.

Spark writes the offsets of a batch beside their place and moves them there. Where no batch was entered yet
it takes what lies there for another query's and refuses the checkpoint, for good.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from streaming.query.checkpoint import OFFSETS, left_to_query, on_file_system


def sweep(session: SparkSession, checkpoint: str) -> None:
    """Delete it from a checkpoint that has no batch; from any other one Spark itself looks past it."""
    with left_to_query():
        system, offsets = on_file_system(session, checkpoint, OFFSETS)
        found = system.listStatus(offsets) if system.exists(offsets) else []
        if all(status.getPath().getName().startswith(".") for status in found):
            for status in found:
                system.delete(status.getPath(), False)
