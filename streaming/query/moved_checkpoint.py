"""A checkpoint that was copied or moved to another place.

Spark names the files of a checkpoint as they lie in its folder, except for those of the state's schema: the
metadata of each stateful step holds their full paths. In another place Spark would not find them, or would
read those of the first place. So the paths are corrected before the query starts.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any, Final

from pyspark.sql import SparkSession

from streaming.query.checkpoint import (
    BY_FILE_SYSTEM,
    MANAGER,
    errors_left_to_query,
    file_system_and_path,
)

_SCHEMA_FILE: Final = re.compile(r".*(/state/\d+/_stateSchema/.*)")
_METADATA: Final = "_metadata/v2"
"""The folder with what Spark knows of a step: a file named by the batch that began with it."""


def correct_schema_paths(session: SparkSession, checkpoint: str) -> None:
    """Let the metadata of a checkpoint's steps name the files of the schema in this folder."""
    with errors_left_to_query(), suppress(ValueError, KeyError):
        system, folder = file_system_and_path(session, checkpoint)
        root = str(system.makeQualified(folder).toString())
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
    """Replace a file as Spark does, which is atomic where it is."""
    managers = session._jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
    settings = session._jsparkSession.sessionState().newHadoopConf()
    if settings.get(MANAGER) == BY_FILE_SYSTEM:
        # It does not replace a file that is there. Without a setting Spark takes the one that does.
        settings.unset(MANAGER)
    written = managers.create(path.getParent(), settings).createAtomic(path, True)
    written.write(bytearray(text.encode()))
    written.close()
