"""The repository as its tests see it: the files that are in it or about to be."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("decoders", "expectations", "streaming", "dashboards")


def files() -> list[Path]:
    """Every file that git knows or would take, as paths below the root."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [path for path in map(Path, listed.splitlines()) if (ROOT / path).is_file()]


def copy_files(folder: Path, paths: Iterable[Path]) -> None:
    """Copy files of the repository to their places below another folder."""
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, folder / path)


def anchors(document: Path) -> set[str]:
    """Return the anchors that a Markdown renderer makes of a document's headings."""
    headings = re.findall(r"^#+ (.+)$", (ROOT / document).read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def modules(*rooms: str) -> list[Path]:
    """The Python files of some rooms, without those that only make a package."""
    return [
        path
        for path in files()
        if path.parts[0] in rooms and path.suffix == ".py" and path.name != "__init__.py"
    ]
