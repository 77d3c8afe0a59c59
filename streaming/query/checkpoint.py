"""The checkpoint's files: how Spark writes them, and what is prepared in them before the query starts.

How they are written: Spark writes each file under a temporary name and renames it. By default it does so
through Hadoop's FileContext, which starts the program `readlink` for both names and for their checksums: with
two stateful steps that is some thirty processes and a third of a second in every micro-batch. Hadoop's older
FileSystem renames with rename(2), which is atomic on a local file system. It starts `chmod` for each file and
its checksum, which is twelve processes in a micro-batch. An object store renames by copying, which is not
atomic: there a file is uploaded under its own name, and exists when the upload is completed.

`prepare_checkpoint` does three things:

- It deletes orphaned offsets. A driver that is killed during the very first batch may leave the temporary
  file of that batch's offsets. If the log of offsets has no batch, Spark takes such a file for another
  query's and refuses the checkpoint for good.
- It corrects schema paths, so that a checkpoint may be copied or moved. Spark names the files of a
  checkpoint relative to its folder, except for those of the state's schema: the metadata of each stateful
  step holds their full paths. In another place Spark would not find them, or would read those of the first
  place.
- It adds an empty batch. Spark runs a batch without input only after another batch: it asks the plan of the
  latest batch whether timers are due. A query that was stopped between two batches has no such plan when it
  starts again. On a silent topic it would run nothing: no timer, no gauge, never ready and at last
  unhealthy. So the next batch is added to the log of offsets as one that reads nothing, as Spark itself does
  while the query runs. Spark then treats it as a batch that was under way when the query ended.
"""

from __future__ import annotations

import json
import re
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
_SCHEMA_FILE: Final = re.compile(r".*(/state/\d+/_stateSchema/.*)")
_METADATA: Final = "_metadata/v2"
"""The folder of a step's metadata. Each file is named after the first batch that it applies to."""


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


def _is_local(session: SparkSession, checkpoint: str) -> bool:
    """Ask Hadoop, since a path without a scheme is on the default file system of Hadoop's configuration."""
    with _errors_left_to_query():
        system, _ = _file_system_and_path(session, checkpoint)
        return bool(system.getScheme() == "file")
    return False


def prepare_checkpoint(session: SparkSession, checkpoint: str) -> None:
    """Let Spark continue from a checkpoint. The query itself reports the reason if one cannot be read."""
    for prepare in (_delete_orphaned_offsets, _correct_schema_paths, _add_empty_batch):
        with _errors_left_to_query():
            prepare(session, checkpoint)


def _delete_orphaned_offsets(session: SparkSession, checkpoint: str) -> None:
    """Delete temporary files of offsets if the checkpoint has no batch; Spark ignores them otherwise."""
    system, offsets = _file_system_and_path(session, checkpoint, OFFSETS)
    found = system.listStatus(offsets) if system.exists(offsets) else []
    if all(status.getPath().getName().startswith(".") for status in found):
        for status in found:
            system.delete(status.getPath(), False)


def _correct_schema_paths(session: SparkSession, checkpoint: str) -> None:
    """Let the metadata of a checkpoint's steps name the files of the schema in this folder."""
    system, folder = _file_system_and_path(session, checkpoint)
    root = str(system.makeQualified(folder).toString())
    with suppress(ValueError, KeyError):
        for step in _listed(system, session, root, "state"):
            for file in _listed(system, session, step, _METADATA):
                _correct(session, system, file, root)


def with_schema_in(root: str, metadata: str) -> str:
    """Return the metadata of a step with the schema's files below `root`; the text itself if they are there.

    Metadata is a line with its version and one of JSON. Raises ValueError or KeyError if it is not.
    """
    version, _, content = metadata.partition("\n")
    step, changed = json.loads(content), False
    for store in step["stateStoreInfo"]:
        before = store["stateSchemaFilePaths"]
        after = [_SCHEMA_FILE.sub(lambda found: root + found[1], path) for path in before]
        store["stateSchemaFilePaths"], changed = after, changed or after != before
    return f"{version}\n{json.dumps(step)}" if changed else metadata


def _listed(system: Any, session: SparkSession, *names: str) -> list[str]:
    """Return the paths in a folder whose names are numbers."""
    folder = session._jvm.org.apache.hadoop.fs.Path(*names)
    found = system.listStatus(folder) if system.exists(folder) else []
    return [str(status.getPath().toString()) for status in found if status.getPath().getName().isdigit()]


def _correct(session: SparkSession, system: Any, file: str, root: str) -> None:
    path = session._jvm.org.apache.hadoop.fs.Path(file)
    stream = system.open(path)
    try:
        before = session._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
    finally:
        stream.close()
    after = with_schema_in(root, before)
    if after != before:
        _write(session, path, after)


def _write(session: SparkSession, path: Any, text: str) -> None:
    """Replace a file as Spark does, atomically on this kind of file system."""
    managers = session._jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
    settings = session._jsparkSession.sessionState().newHadoopConf()
    if settings.get(MANAGER) == BY_FILE_SYSTEM:
        # It does not replace a file that is there. Without a setting Spark takes the one that does.
        settings.unset(MANAGER)
    written = managers.create(path.getParent(), settings).createAtomic(path, True)
    written.write(bytearray(text.encode()))
    written.close()


def _add_empty_batch(session: SparkSession, checkpoint: str) -> None:
    """Add a batch that reads nothing if all batches of the checkpoint are committed."""
    jsession = session._jsparkSession
    logs = session._jvm.org.apache.spark.sql.execution.streaming.checkpointing
    committed = logs.CommitLog(jsession, f"{checkpoint}/commits", True).getLatestBatchId()
    latest_entry = logs.OffsetSeqLog(jsession, f"{checkpoint}/{OFFSETS}", True).getLatest()
    if committed.isEmpty() or latest_entry.isEmpty():
        return
    latest, offsets = latest_entry.get()._1(), latest_entry.get()._2()
    if latest == committed.get():
        logs.OffsetSeqLog(jsession, f"{checkpoint}/{OFFSETS}", False).add(latest + 1, offsets)


def _file_system_and_path(session: SparkSession, *names: str) -> tuple[Any, Any]:
    """Return Hadoop's FileSystem and Path of a folder, or of a file in it. Raises Py4JJavaError."""
    path = session._jvm.org.apache.hadoop.fs.Path(*names)
    return path.getFileSystem(session._jsc.hadoopConfiguration()), path


def _errors_left_to_query() -> AbstractContextManager[None]:
    """Suppress errors of an unreadable checkpoint: the query fails on it and reports the reason."""
    return suppress(Py4JJavaError, PySparkException)
