"""promtool, which judges the generated files, and Prometheus' answers to queries."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import yaml


def promtool(*arguments: str | Path) -> None:
    """Run promtool, and fail with its output."""
    if shutil.which("promtool") is None:
        pytest.fail(
            "promtool is missing: apt-get install --no-install-recommends prometheus, or `make test` as root"
        )
    told = subprocess.run(
        ["promtool", *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False
    )
    assert told.returncode == 0, told.stdout + told.stderr


def check_queries(folder: Path, queries: Sequence[str]) -> None:
    """Let promtool parse queries, as the expressions of recording rules."""
    rules = [{"record": f"asked:query:{number}", "expr": query} for number, query in enumerate(queries)]
    file = folder / "queries.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    promtool("check", "rules", file)


def evaluate(folder: Path, *cases: dict[str, Any], rules: Sequence[Path] = ()) -> None:
    """Let promtool evaluate cases in the form of its unit tests, every minute, beside the rules of files."""
    written = {"rule_files": list(map(str, rules)), "evaluation_interval": "1m", "tests": list(cases)}
    file = folder / "cases.yml"
    file.write_text(yaml.safe_dump(written))
    promtool("test", "rules", file)


STEP: Final = 5
"""Seconds between two values of a series over time."""


def series_of(url: str, expression: str, over_seconds: int = 0) -> list[dict[str, Any]]:
    """Return the series of an expression: now, or over a number of seconds. Fails if it is refused."""
    now = time.time()
    when = {"start": now - over_seconds, "end": now, "step": STEP} if over_seconds else {"time": now}
    path = "query_range" if over_seconds else "query"
    body = urllib.parse.urlencode({"query": expression, **when}).encode()
    with urllib.request.urlopen(f"{url}/api/v1/{path}", body, timeout=20) as response:
        result = json.load(response)
    assert result["status"] == "success", result
    found: list[dict[str, Any]] = result["data"]["result"]
    return found
