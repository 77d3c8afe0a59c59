"""Data flows one way through the rooms, and decoders and expectations use neither network nor clock."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.repository.tree import ROOT, modules

OUTSIDE = {
    "asyncio",
    "confluent_kafka",
    "datetime",
    "http",
    "multiprocessing",
    "prometheus_client",
    "pyspark",
    "random",
    "secrets",
    "select",
    "socket",
    "subprocess",
    "threading",
    "time",
    "urllib",
}
"""Packages that do input or output: network, clock, chance, other processes, Spark."""


def imported(path: Path) -> Iterator[str]:
    """The top-level packages that a module imports, anywhere in it."""
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


def test_the_import_contracts_are_kept() -> None:
    ran = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--no-logo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    assert " 0 broken" in ran.stdout


def test_decoders_and_expectations_do_no_input_or_output() -> None:
    impure = {
        str(path): found
        for path in modules("decoders", "expectations")
        if (found := OUTSIDE.intersection(imported(path)))
    }
    assert impure == {}


def test_only_the_suites_know_great_expectations() -> None:
    users = {
        path.parent for path in modules("decoders", "expectations") if "great_expectations" in imported(path)
    }
    assert users == {Path("expectations/suites")}


def test_no_room_imports_its_tests() -> None:
    assert not [
        path
        for path in modules("decoders", "expectations", "streaming", "dashboards")
        if "tests" in imported(path)
    ]
