"""Programs in Go that tests call: built here, since no package of Debian has them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

HELM: Final = "helm.sh/helm/v3/cmd/helm@v3.18.6"
_PATIENCE: Final = 900


def install(program: str, folder: Path) -> Path:
    """Build a published program, named with its version, into a folder. Returns its path."""
    environment = os.environ | {"GOBIN": str(folder)}
    subprocess.run(["go", "install", program], env=environment, check=True, timeout=_PATIENCE)
    return folder / program.split("@", maxsplit=1)[0].rpartition("/")[2]


def build(sources: Path, folder: Path) -> None:
    """Build a program of ours into a folder."""
    command = ["go", "build", "-o", str(folder / sources.name), "."]
    subprocess.run(command, cwd=sources, check=True, timeout=_PATIENCE)
