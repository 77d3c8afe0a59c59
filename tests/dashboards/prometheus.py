"""Prometheus' own tool, as the judge of what we generate."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def promtool(*arguments: str | Path) -> None:
    """Run promtool and fail with what it says."""
    if shutil.which("promtool") is None:
        pytest.fail(
            "promtool is missing: apt-get install --no-install-recommends prometheus, or `make test` as root"
        )
    told = subprocess.run(
        ["promtool", *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False
    )
    assert told.returncode == 0, told.stdout + told.stderr
