"""Which keys a checkpoint's state has: a file in it says so, put there before its first batch.

A checkpoint with batches and without that file was made when the keys of buckets were their numbers.
"""

from __future__ import annotations

from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from streaming.query.checkpoint import on_file_system
from streaming.query.keys import MARK, Keys

_BATCHES: Final = "offsets"


def keys_of(session: SparkSession, checkpoint: str) -> Keys:
    """Tell the keys of a checkpoint, those that a new one is to have if there is none. Writes nothing."""
    try:
        is_earlier = _exists(session, checkpoint, _BATCHES) and not _exists(session, checkpoint, MARK)
    except (Py4JJavaError, PySparkException):
        return Keys.DEALT  # What is wrong with the checkpoint is told by the query that is started with it.
    return Keys.NUMBERED if is_earlier else Keys.DEALT


def mark_keys(session: SparkSession, checkpoint: str) -> None:
    """Put the file into a checkpoint that has no batch yet."""
    try:
        if not _exists(session, checkpoint, _BATCHES):
            system, path = on_file_system(session, checkpoint, MARK)
            system.create(path, True).close()
    except (Py4JJavaError, PySparkException):
        return  # Likewise.


def _exists(session: SparkSession, checkpoint: str, name: str) -> bool:
    system, path = on_file_system(session, checkpoint, name)
    return bool(system.exists(path))
