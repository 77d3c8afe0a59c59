"""Data flows one way through the rooms, and decoders and expectations use neither network nor clock."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import grimp

from tests.repository.tree import ROOMS, ROOT, modules

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


@functools.cache
def imported(path: Path) -> frozenset[str]:
    """The top-level packages that a module imports, anywhere in it."""
    return frozenset(_imports(path))


def _imports(path: Path) -> Iterator[str]:
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


def test_every_room_has_its_place_in_the_contract() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    placed = {room for layer in layers for room in re.split(r" [|:] ", layer)}
    rooms = {path.parts[:2] for path in modules("decoders", "expectations", "streaming")}
    assert {".".join(room).removesuffix(".py") for room in rooms} | {"dashboards", "kipwatch"} == placed


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = grimp.build_graph(*ROOMS)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    # A topological order exists only without a circle. CycleError names the modules of one.
    assert len([*TopologicalSorter(imports).static_order()]) == len(imports)


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
    assert not [path for path in modules(*ROOMS) if "tests" in imported(path)]


def test_no_two_classes_have_one_name() -> None:
    named: dict[str, list[Path]] = {}
    for path in modules(*ROOMS, "kipwatch"):
        for node in ast.walk(ast.parse((ROOT / path).read_text())):
            if isinstance(node, ast.ClassDef):
                named.setdefault(node.name, []).append(path)
    assert {name: paths for name, paths in named.items() if len(paths) > 1} == {}
