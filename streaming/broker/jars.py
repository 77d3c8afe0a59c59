"""The cache of pinned jars: resolved once per user and set of pins.

`<user cache>/kipwatch/jars/<digest of the pins>/` holds a folder for each Ivy configuration. It is renamed
into place when it is complete, so an interrupted resolve leaves no partial folder. Each jar must have the
SHA-256 that is recorded beside the pins. The jars of object stores have pins of their own: they are large,
and only a checkpoint that is in one needs them.
"""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from streaming.broker.ivy import PINS, S3_PINS, retrieve
from streaming.broker.jar_digests import verify
from streaming.user_error import UserError

Configuration = Literal["broker", "connector", "s3"]

# The file that lists all jars. It is written last; a jar that is listed and missing has been deleted since.
_LISTING = "complete"


def jars(configuration: Configuration, report: Callable[[str], None] | None = None) -> list[Path]:
    """Return the jars of an Ivy configuration; resolve all of its pins first if the cache lacks any.

    A cold resolve takes a minute; `report` gets its progress line by line. Raises `UserError` if it fails.
    """
    pins = S3_PINS if configuration == "s3" else PINS
    home = _cache() / _digest(pins)
    try:
        if not complete(home):
            _fill(home, pins, report or _ignore)
    except OSError as error:
        remedy = "set XDG_CACHE_HOME to a folder that you can write to"
        raise UserError(f"cannot keep jars in {home}: {error.strerror}; {remedy}") from error
    return [home / name for name in _listed(home) if name.startswith(f"{configuration}/")]


def complete(home: Path) -> bool:
    """Whether a cache folder holds every jar that its listing names."""
    return (home / _LISTING).is_file() and all((home / name).is_file() for name in _listed(home))


def seal(home: Path) -> None:
    """Write the listing of a folder that holds all its jars, which makes it complete."""
    names = sorted(str(jar.relative_to(home)) for jar in home.glob("*/*.jar"))
    (home / _LISTING).write_text("\n".join(names))


def _cache() -> Path:
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:
        raise UserError(
            "this user has no home to keep jars in; name a folder in the environment: XDG_CACHE_HOME"
        ) from None
    return base / "kipwatch" / "jars"


def _digest(pins: Path) -> str:
    return hashlib.sha256(pins.read_bytes()).hexdigest()[:16]


def _listed(home: Path) -> list[str]:
    return (home / _LISTING).read_text().splitlines()


def _fill(home: Path, pins: Path, report: Callable[[str], None]) -> None:
    home.parent.mkdir(parents=True, exist_ok=True)
    with _locked(home.with_suffix(".lock"), report):
        if complete(home):  # another process has filled it
            return
        partial = home.with_suffix(".partial")
        _remove(partial)  # left by a process that was killed
        try:
            retrieve(pins, partial, report)
            _remove(partial / "ivy")
            verify(partial, pins)
            seal(partial)
            _remove(home)
            partial.rename(home)
        finally:
            _remove(partial)


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)


@contextmanager
def _locked(lock: Path, report: Callable[[str], None]) -> Iterator[None]:
    """Hold a lock between processes; the kernel releases it when its holder ends."""
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("jars: another process is fetching them, waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _ignore(line: str) -> None:
    """Report nothing."""
