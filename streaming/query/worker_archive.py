"""The archive that Spark's workers on other machines import from: our packages and their dependencies."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Final

FOLDER: Final = "kipwatch-archive"
"""The folder into which a worker unpacks the archive, below its working directory."""
PACKAGES: Final = ("decoders", "expectations", "streaming")
NEEDED: Final = ("msgspec", "numba", "numpy", "pyarrow", "zstandard", "pandas", "protobuf")
"""Imports of our stages, and of PySpark's own worker for transformWithState."""
_NAME = re.compile(r"[\w.-]+")


def pack_worker_archive(folder: Path) -> Path:
    """Write the archive into a folder and return its path."""
    archive = folder / f"{FOLDER}.tar"
    with tarfile.open(archive, "w") as packed:
        for source, name in _files():
            packed.add(source, name)
    return archive


def _files() -> Iterator[tuple[Path, str]]:
    for package in PACKAGES:
        spec = find_spec(package)
        assert spec is not None and spec.origin is not None
        root = Path(spec.origin).parent
        for path in sorted(root.rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                yield path, f"{package}/{path.relative_to(root)}"
    for found in _distributions(NEEDED).values():
        yield from _installed(found)


def _distributions(names: Iterable[str]) -> dict[str, Distribution]:
    """Return distributions and their dependencies. One that is not installed is for another platform."""
    found: dict[str, Distribution] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        with suppress(PackageNotFoundError):
            if name not in found:
                found[name] = distribution(name)
                waiting += [
                    _named(needed) for needed in found[name].requires or () if "extra ==" not in needed
                ]
    return found


def _named(requirement: str) -> str:
    named = _NAME.match(requirement)
    assert named is not None
    return named[0]


def _installed(found: Distribution) -> Iterator[tuple[Path, str]]:
    """Yield a distribution's files, without tests, byte code and files outside site-packages."""
    for file in found.files or ():
        outside = file.parts[0] == ".." or "tests" in file.parts
        if not outside and file.suffix != ".pyc":
            yield Path(str(found.locate_file(file))), str(file)
