"""Compiles functions to machine code with numba, and caches that code by all sources it depends on."""

from __future__ import annotations

import functools
import hashlib
import importlib
import os
import pwd
import re
import shutil
import stat
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import numba
from numba.core.caching import UserProvidedCacheLocator

_OPTIONS: Final = {"_nrt": False}
"""Without numba's runtime: arrays belong to the caller, and counting references to them would make the
columnar reader 30 times slower. numba has no public option for it."""
_ROOT: Final = Path(__file__).parents[1]
_IMPORT: Final = re.compile(r"^from (\S+) import", re.MULTILINE)

_FOLDERS: Final = ("kipwatch", "numba")
"""The folders of compiled code in a cache directory."""
_ONE_WRITER: Final = 0o755

_Function = TypeVar("_Function", bound=Callable[..., Any])
_ALGEBRA: Final = "scipy.linalg"


def _import_without_algebra() -> None:
    """Import numba's array functions without scipy.linalg.

    numba imports it to offer linear algebra, which no function here uses. It would take a tenth of a
    command's start, 15 MB and a thread.
    """
    if _ALGEBRA not in sys.modules:
        # An import of what is None fails, and numba does without.
        sys.modules[_ALGEBRA] = None  # type: ignore[assignment]
        try:
            importlib.import_module("numba.np.arraymath")
        finally:
            del sys.modules[_ALGEBRA]


_import_without_algebra()


def compiled(signature: Any) -> Callable[[_Function], _Function]:
    """Compile for a numba signature, or, if that is None, for the types of the first call.

    Machine code is cached in `kipwatch/numba/` of the user's cache directory, or of NUMBA_CACHE_DIR, in a
    folder named by a digest of all sources that the function may depend on: those that its file imports from
    its package and this one, and their imports in turn. numba itself compares only the file of the function,
    and names a folder by that file's path. Executors of a cluster unpack our packages to a new path at each
    start, so they would compile anew each time. A new folder begins with what `prepare` compiled into the
    user's cache directory: that of an image may not be written to. If the folder cannot be written to, each
    process compiles anew, which takes a minute. Whoever can write to the folder can run code in our
    processes, so one that others may write to is not used: the one in the home of this user is.
    """

    def compile_function(function: _Function) -> _Function:
        directory = _cache_directory(Path(function.__code__.co_filename))
        with _caching_in(directory):
            cached = directory is not None
            return numba.njit(signature, cache=cached, **_OPTIONS)(function)  # type: ignore[no-any-return]

    return compile_function


def inlined(function: _Function) -> _Function:
    """Compile a function into its callers: for steps that every frame needs."""
    return numba.njit(function, forceinline=True, **_OPTIONS)  # type: ignore[no-any-return]


def outlined(function: _Function) -> _Function:
    """Compile a function that compiled functions call: for steps that are rare or large."""
    return numba.njit(function, **_OPTIONS)  # type: ignore[no-any-return]


def sources_of(file: Path) -> list[Path]:
    """Return a file and all files of its package and of this one that it depends on, sorted."""
    packages = {Path(__file__).parent.name, file.relative_to(_ROOT).parts[0]}
    found, waiting = set[Path](), [file]
    while waiting:
        source = waiting.pop()
        if source not in found:
            found.add(source)
            imported = _read(source).imported
            waiting += chain.from_iterable(imported[package] for package in packages & imported.keys())
    return sorted(found)


class _SourceFile(NamedTuple):
    """A file: the digest of its bytes, and the files that it imports, by their package at the top.

    Of a package that is imported as a whole, these are all files.
    """

    digest: bytes
    imported: Mapping[str, list[Path]]


@functools.cache
def _read(file: Path) -> _SourceFile:
    content, imported = file.read_bytes(), dict[str, list[Path]]()
    for module in _IMPORT.findall(content.decode()):
        parts = module.split(".")
        place = _ROOT.joinpath(*parts)
        found = place.glob("*.py") if place.is_dir() else [place.with_suffix(".py")]
        imported.setdefault(parts[0], []).extend(found)
    return _SourceFile(hashlib.sha256(content).digest(), imported)


@functools.cache
def _cache_directory(file: Path) -> Path | None:
    """Create the folder for the functions of a file; return None if that fails."""
    digest = hashlib.sha256(numba.__version__.encode())
    try:
        for source in sources_of(file):
            digest.update(_read(source).digest)
        users = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        base, name = Path(numba.config.CACHE_DIR or users), digest.hexdigest()[:16]
        try:
            folder = _made(base, name)
        except PermissionError as error:
            warnings.warn(f"no compiled code is kept in {base}: {error}", RuntimeWarning, stacklevel=1)
            folder = _made(Path(pwd.getpwuid(os.geteuid()).pw_dir, ".cache"), name)
        if not any(folder.iterdir()):
            _copy_prepared(users, folder)
    except (OSError, RuntimeError, KeyError):
        return None
    return folder if os.access(folder, os.W_OK) else None


def _made(base: Path, name: str) -> Path:
    """Make the folder of this name. Raises PermissionError if others may write to it, or replace it."""
    base.mkdir(parents=True, exist_ok=True)
    # In a sticky folder such as /tmp, only its owner can replace a file.
    _refuse_shared(base, base.stat(), keeps_owners=bool(base.stat().st_mode & stat.S_ISVTX))
    folder = base
    for part in (*_FOLDERS, name):
        folder /= part
        folder.mkdir(mode=_ONE_WRITER, exist_ok=True)
        _refuse_shared(folder, folder.lstat())
    return folder


def _copy_prepared(users: Path, folder: Path) -> None:
    """Fill an empty folder from the user's cache directory, if that has one of the same name."""
    prepared = users.joinpath(*_FOLDERS, folder.name)
    if prepared == folder or not prepared.is_dir():
        return
    with suppress(OSError), tempfile.TemporaryDirectory(dir=folder.parent) as copying:
        _made(users, folder.name)
        copied = Path(copying, folder.name)
        shutil.copytree(prepared, copied)
        # Fails if another process was first.
        copied.rename(folder)


def _refuse_shared(folder: Path, found: os.stat_result, *, keeps_owners: bool = False) -> None:
    if found.st_uid not in {0, os.geteuid()}:
        raise PermissionError(f"{folder} belongs to another user")
    of_another_group = found.st_gid not in {0, os.getegid()}
    is_shared = found.st_mode & stat.S_IWOTH or (found.st_mode & stat.S_IWGRP and of_another_group)
    if is_shared and not keeps_owners:
        raise PermissionError(f"others may write to {folder}")


class CacheLocator(UserProvidedCacheLocator):  # type: ignore[misc]
    """Finds the cache of a function in numba's cache directory itself, wherever the function's file is."""

    def __init__(self, function: Any, file: str) -> None:
        super().__init__(function, file)
        self._directory = str(numba.config.CACHE_DIR)

    def get_cache_path(self) -> str:
        """Return the directory."""
        return self._directory


@contextmanager
def _caching_in(directory: Path | None) -> Iterator[None]:
    """Set numba's cache directory and locator, which it reads when a function is defined."""
    config = numba.config
    before = config.CACHE_DIR, config.CACHE_LOCATOR_CLASSES
    config.CACHE_DIR = "" if directory is None else str(directory)
    config.CACHE_LOCATOR_CLASSES = "" if directory is None else f"{__name__}.{CacheLocator.__name__}"
    try:
        yield
    finally:
        config.CACHE_DIR, config.CACHE_LOCATOR_CLASSES = before
