"""What a driver that was killed may leave of the very first batch: a file that has not come to its place.

Spark writes the offsets of a batch beside their place and moves them there. Where no batch was entered yet
it takes what lies there for another query's and refuses the checkpoint, for good.
"""

from __future__ import annotations

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from streaming.query.checkpoint import on_file_system


def sweep(session: SparkSession, checkpoint: str) -> None:
    """Delete it from a checkpoint that has no batch; from any other one Spark itself looks past it."""
    try:
        system, offsets = on_file_system(session, checkpoint, "offsets")
        found = [status.getPath() for status in system.listStatus(offsets)] if system.exists(offsets) else []
        if all(path.getName().startswith(".") for path in found):
            for path in found:
                system.delete(path, False)
    except (Py4JJavaError, PySparkException):
        return  # What is wrong with the checkpoint is told by the query that is started with it.
