"""A rule pack in a folder of its own, as pip would install it there."""

from __future__ import annotations

import os
from pathlib import Path

from expectations.rules.pack_template import pack_files, requirement

OFFENCE = "versions-asked-often"


def install(folder: Path, prefix: str = "acme", offence: str = OFFENCE) -> Path:
    """Install the pack that `kipwatch rules new` begins, or add a rule. Returns the folder of its package."""
    for path, text in pack_files(prefix, offence).items():
        written = folder / path
        written.parent.mkdir(parents=True, exist_ok=True)
        if not written.exists():
            written.write_text(text)
    package = folder / f"kipwatch_{prefix}"
    with (package / "requirements.toml").open("a") as table:
        table.write(requirement(prefix, offence))
    register(folder, prefix, package.name)
    return package


def register(folder: Path, prefix: str, package: str) -> None:
    """Say that a package is a pack, as an installed distribution does."""
    about = folder / f"kipwatch_{prefix}_{package}-0.1.0.dist-info"
    about.mkdir(exist_ok=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {about.name[:-16]}\nVersion: 0.1.0\n")
    (about / "entry_points.txt").write_text(f"[kipwatch.rules]\n{prefix} = {package}\n")


def searched(folder: Path) -> str:
    """Return the PYTHONPATH with which the packs of a folder are installed."""
    return os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
