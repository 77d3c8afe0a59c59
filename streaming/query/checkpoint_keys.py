"""Which keys a checkpoint's state has: a file in it says so, put there before its first batch.

A checkpoint with batches and without that file was made when the keys of buckets were their numbers.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from streaming.query.checkpoint import OFFSETS, left_to_query, on_file_system
from streaming.query.keys import MARK, Keys


def keys_of(session: SparkSession, checkpoint: str) -> Keys:
    """Tell the keys of a checkpoint, those that a new one is to have if there is none. Writes nothing."""
    with left_to_query():
        if _exists(session, checkpoint, OFFSETS) and not _exists(session, checkpoint, MARK):
            return Keys.NUMBERED
    return Keys.DEALT


def mark_keys(session: SparkSession, checkpoint: str) -> None:
    """Put the file into a checkpoint that has no batch yet."""
    with left_to_query():
        if not _exists(session, checkpoint, OFFSETS):
            system, path = on_file_system(session, checkpoint, MARK)
            system.create(path, True).close()


def _exists(session: SparkSession, checkpoint: str, name: str) -> bool:
    system, path = on_file_system(session, checkpoint, name)
    return bool(system.exists(path))
