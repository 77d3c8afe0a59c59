"""How a checkpoint's files are written: on a local file system without a process for each look at one.

Spark writes each file beside its place and moves it there. By default it does so through Hadoop's
FileContext, which asks the program `readlink` of both names and of their checksums: with two stateful steps
that is some thirty processes in every micro-batch, a third of a second of it. Hadoop's older FileSystem moves
a file by rename(2), which is atomic where the file system is local, and asks nobody.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, suppress
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from streaming.settings.configuration import Configuration

OFFSETS: Final = "offsets"
"""The folder in which Spark enters each batch."""
MANAGER: Final = "spark.sql.streaming.checkpointFileManagerClass"
BY_FILE_SYSTEM: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)


def on_file_system(session: SparkSession, *names: str) -> tuple[Any, Any]:
    """Give Hadoop's FileSystem and Path of a folder, or of a file in it. Raises what Java does."""
    path = session._jvm.org.apache.hadoop.fs.Path(*names)
    return path.getFileSystem(session._jsc.hadoopConfiguration()), path


def left_to_query() -> AbstractContextManager[None]:
    """Pass over what is wrong with a checkpoint: the query that is started with it tells."""
    return suppress(Py4JJavaError, PySparkException)


def choose_manager(session: SparkSession, configuration: Configuration) -> None:
    """Let Spark write a local checkpoint the quick way, unless [spark] says how. Another is left alone."""
    if MANAGER not in configuration.spark and _is_local(session, configuration.checkpoint):
        session.conf.set(MANAGER, BY_FILE_SYSTEM)


def _is_local(session: SparkSession, checkpoint: str) -> bool:
    """Ask Hadoop, since a path without scheme is on the file system that its configuration names."""
    with left_to_query():
        system, _ = on_file_system(session, checkpoint)
        return bool(system.getScheme() == "file")
    return False
