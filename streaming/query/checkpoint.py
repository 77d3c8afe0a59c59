"""The checkpoint's files: how Spark writes them, and what is prepared in them before the query starts.

How they are written: Spark writes each file under a temporary name and renames it. By default it does so
through Hadoop's FileContext, which starts the program `readlink` for both names and for their checksums:
with two stateful steps that is some thirty processes and a third of a second in every micro-batch. Hadoop's
older FileSystem renames with rename(2), which is atomic on a local file system, and starts no process.
An object store renames by copying, which is not atomic: there a file is uploaded under its own name, and
exists when the upload is completed.

What is prepared:

- A driver that is killed during the very first batch may leave the temporary file of that batch's offsets.
  Where no batch is in the log of offsets, Spark takes such a file for another query's and refuses the
  checkpoint for good. So it is deleted.
- Spark runs a batch without input only after another batch: it asks the plan of the latest batch whether
  timers are due. A query that was stopped between two batches has no such plan when it starts again. On a
  silent topic it would run nothing: no timer, no gauge, never ready and at last unhealthy. So the next
  batch is added to the log of offsets as one that reads nothing, as Spark itself does while the query runs.
  Spark then treats it as a batch that was under way when the query ended.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, suppress
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from streaming.settings.configuration import Configuration

OFFSETS: Final = "offsets"
"""The folder of the log of offsets, with a file for each batch."""
MANAGER: Final = "spark.sql.streaming.checkpointFileManagerClass"
BY_FILE_SYSTEM: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
BY_UPLOAD: Final = "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"


def choose_file_manager(session: SparkSession, configuration: Configuration) -> None:
    """Let Spark write files in the way that is atomic where they are, unless [spark] sets a file manager."""
    if MANAGER in configuration.spark:
        return
    if on_s3(configuration.checkpoint):
        session.conf.set(MANAGER, BY_UPLOAD)
    elif _is_local(session, configuration.checkpoint):
        session.conf.set(MANAGER, BY_FILE_SYSTEM)


def on_s3(checkpoint: str) -> bool:
    """Whether a checkpoint is in an object store that speaks S3."""
    return checkpoint.startswith("s3a://")


def delete_orphaned_offsets(session: SparkSession, checkpoint: str) -> None:
    """Delete temporary files of offsets if the checkpoint has no batch; Spark ignores them otherwise."""
    with errors_left_to_query():
        system, offsets = file_system_and_path(session, checkpoint, OFFSETS)
        found = system.listStatus(offsets) if system.exists(offsets) else []
        if all(status.getPath().getName().startswith(".") for status in found):
            for status in found:
                system.delete(status.getPath(), False)


def add_empty_batch(session: SparkSession, checkpoint: str) -> None:
    """Add a batch that reads nothing if all batches of the checkpoint are committed."""
    with errors_left_to_query():
        _add_empty_batch(session, checkpoint)


def _add_empty_batch(session: SparkSession, checkpoint: str) -> None:
    jsession = session._jsparkSession
    logs = session._jvm.org.apache.spark.sql.execution.streaming.checkpointing
    committed = logs.CommitLog(jsession, f"{checkpoint}/commits", True).getLatestBatchId()
    latest_entry = logs.OffsetSeqLog(jsession, f"{checkpoint}/{OFFSETS}", True).getLatest()
    if committed.isEmpty() or latest_entry.isEmpty():
        return
    latest, offsets = latest_entry.get()._1(), latest_entry.get()._2()
    if latest == committed.get():
        logs.OffsetSeqLog(jsession, f"{checkpoint}/{OFFSETS}", False).add(latest + 1, offsets)


def _is_local(session: SparkSession, checkpoint: str) -> bool:
    """Ask Hadoop, since a path without a scheme is on the default file system of Hadoop's configuration."""
    with errors_left_to_query():
        system, _ = file_system_and_path(session, checkpoint)
        return bool(system.getScheme() == "file")
    return False


def file_system_and_path(session: SparkSession, *names: str) -> tuple[Any, Any]:
    """Return Hadoop's FileSystem and Path of a folder, or of a file in it. Raises Py4JJavaError."""
    path = session._jvm.org.apache.hadoop.fs.Path(*names)
    return path.getFileSystem(session._jsc.hadoopConfiguration()), path


def errors_left_to_query() -> AbstractContextManager[None]:
    """Suppress errors of an unreadable checkpoint: the query fails on it and reports the reason."""
    return suppress(Py4JJavaError, PySparkException)
