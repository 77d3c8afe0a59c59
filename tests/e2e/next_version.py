"""The next version of kipwatch: a wheel of this tree with a higher number, beside the checkout."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from zipfile import ZipFile

from tests.repository.tree import copy_files, files


def unpack_next_version(folder: Path) -> tuple[str, dict[str, str]]:
    """Return its number, and the environment in which `python -m kipwatch` is that version.

    The checkout is on the path, too, behind it. Libraries are shared.
    """
    number = f"{version('kipwatch')}.post1"
    sources, installed = folder / "sources", folder / "installed"
    copy_files(sources, files())
    project = sources / "pyproject.toml"
    line = f'version = "{version("kipwatch")}"'
    assert line in project.read_text()
    project.write_text(project.read_text().replace(line, f'version = "{number}"', 1))
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--wheel-dir", folder, sources], check=True, timeout=120)
    (wheel,) = folder.glob("*.whl")
    ZipFile(wheel).extractall(installed)
    # Without the working folder on the path, which may be the checkout.
    return number, {"PYTHONPATH": str(installed), "PYTHONSAFEPATH": "1"}
