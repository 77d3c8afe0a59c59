"""A checkpoint in a file system of this machine: whether the query can use it, and that no other query does.

The folder is tried before Spark starts: it is created, and a file is written there. Spark would fail after a
minute or more, with an error of Hadoop.

Two queries on one checkpoint undo each other's batches. The query holds a lock on the folder, which ends with
its process, however that ends, and leaves no file that a copy of the checkpoint would contain. Queries on
several machines that share a folder, or whose checkpoint is in an object store, do not see each other's
locks; Spark ends one of them (`checkpoint-shared`).

If the folder is deleted or moved while the query runs, Spark makes it anew and goes on, with the state that
it has at hand. No query could start from what it writes there, so the query must notice.
"""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from streaming.settings.configuration import Configuration
from streaming.user_error import UserError

_SCHEME: Final = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*):(?P<path>.*)", re.DOTALL)
_DEFAULT_SYSTEM: Final = "spark.hadoop.fs.defaultFS"
_OF_HADOOP: Final = ("HADOOP_CONF_DIR", "PYSPARK_GATEWAY_PORT")
"""Variables of an environment in which Hadoop's configuration says where a path without a scheme is."""


def local_folder(configuration: Configuration) -> Path | None:
    """Return the folder of the checkpoint, None if it is not known to be in a file system of this machine."""
    location = configuration.checkpoint
    if found := _SCHEME.fullmatch(location):
        return Path(re.sub("^//+", "/", found["path"])) if found["scheme"] == "file" else None
    is_elsewhere = _DEFAULT_SYSTEM in configuration.spark or any(name in os.environ for name in _OF_HADOOP)
    return None if is_elsewhere else Path(location)


def why_unusable(folder: Path) -> str:
    """Try to write into a folder, or beside where it would be created. Returns the reason if that fails."""
    if folder.exists() and not folder.is_dir():
        return f"{folder} is no folder: remove it, or correct `checkpoint`"
    place = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            file.write(b"x")
    except OSError as error:
        verb = "written" if place == folder else "created"
        remedy = f"let this user write to {place}, or correct `checkpoint`"
        return f"{folder} cannot be {verb} ({error.strerror}): {remedy}"
    return ""


@contextmanager
def held_checkpoint(configuration: Configuration) -> Iterator[Callable[[], bool]]:
    """Create the folder of the checkpoint and keep other queries from it.

    Yields a function that tells whether the folder is still there. Does nothing for a checkpoint elsewhere.
    Raises UserError if the folder cannot be used, or is in use.
    """
    folder = local_folder(configuration)
    if folder is None:
        yield lambda: True
        return
    if problem := why_unusable(folder):
        raise UserError(f"the checkpoint {problem}")
    descriptor = _opened(folder)
    try:
        _lock(descriptor, folder)
        yield lambda: _is_at(folder, descriptor)
    finally:
        os.close(descriptor)


def _opened(folder: Path) -> int:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise UserError(
            f"the checkpoint {folder} cannot be used ({error.strerror}): run as its owner, "
            "or correct `checkpoint`"
        ) from error


def _is_at(folder: Path, descriptor: int) -> bool:
    """Whether a path leads to the folder that is open. A path that cannot be looked up is no proof."""
    try:
        return os.path.samestat(folder.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _lock(descriptor: int, folder: Path) -> None:
    # Some network file systems lock no folders.
    with suppress(OSError):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"the checkpoint {folder} is in use by another query on this machine: stop that one, or name "
                "another folder as `checkpoint`"
            ) from None
