"""`make release` in a fresh commit: its files, their metadata, and that a second run makes the same."""

from __future__ import annotations

import hashlib
import importlib
import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml

from streaming.broker.jars import PINS
from tests.deploy import go_programs
from tests.repository.tree import copy_files, files

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(shutil.which("go") is None, reason="go is not installed, which builds helm"),
]


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder `dist` of a copy of this tree."""
    folder = tmp_path_factory.mktemp("release")
    helm, clone = go_programs.install(go_programs.HELM, folder), folder / "clone"
    copy_files(clone, files())
    git = ["git", "-c", "user.name=release", "-c", "user.email=release@example.org"]
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "A release"]):
        subprocess.run([*git, *command], cwd=clone, check=True)
    # The packages of this environment in the place of a new one.
    make = [
        "make",
        "--old-file",
        ".venv/ready",
        "release",
        f"HELM={helm}",
        f"BIN={Path(sys.executable).parent}",
    ]
    subprocess.run(make, cwd=clone, check=True, timeout=600)
    first = {path.name: digest(path) for path in (clone / "dist").iterdir()}
    subprocess.run(make, cwd=clone, check=True, timeout=600)
    second = {path.name: digest(path) for path in (clone / "dist").iterdir()}
    # Helm writes the time into its archive.
    assert {name for name in first if first[name] != second[name]} <= {"SHA256SUMS", *chart_names(first)}
    return clone / "dist"


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def chart_names(names: Iterable[str]) -> list[str]:
    return [name for name in names if name.endswith(".tgz")]


def test_its_files_are_those_of_the_page_and_have_their_sums(released: Path) -> None:
    lines = (released / "SHA256SUMS").read_text().splitlines()
    sums = {name: digest for digest, name in map(str.split, lines)}
    assert sums == {path.name: digest(path) for path in released.iterdir() if path.name != "SHA256SUMS"}
    assert {Path(name).suffix for name in sums} == {".whl", ".tgz", ".json", ".lock"}


def test_wheel_and_chart_have_one_version(released: Path) -> None:
    (wheel,), (chart,) = released.glob("*.whl"), released.glob("*.tgz")
    version = wheel.name.split("-")[1]
    with tarfile.open(chart) as archive:
        member = archive.extractfile("kipwatch/Chart.yaml")
        assert member is not None
        assert yaml.safe_load(member)["appVersion"] == version
    assert f"kipwatch-{version}.dist-info/METADATA" in ZipFile(wheel).namelist()


def test_the_list_of_parts_names_every_locked_package_and_every_pinned_jar(released: Path) -> None:
    text = (released / "kipwatch.cdx.json").read_text()
    parts = json.loads(text)
    # Each worker that collects this file would spend 2 s on these.
    schema, validation = map(importlib.import_module, ("cyclonedx.schema", "cyclonedx.validation.json"))
    version = schema.SchemaVersion.from_version(parts["specVersion"])
    assert validation.JsonStrictValidator(version).validate_str(text) is None
    locked = (released / "requirements-run.lock").read_text().splitlines()
    names = {line.split("==")[0] for line in locked if "==" in line and not line.startswith(("#", " "))}
    assert len(names) > 20
    lines = [line for path in sorted(PINS.parent.glob("*.sha256")) for line in path.read_text().splitlines()]
    pinned = [line.split() for line in lines]
    assert len(pinned) > 20
    jars = [part for part in parts["components"] if part["bom-ref"].endswith(".jar")]
    assert [[part["hashes"][0]["content"], part["bom-ref"]] for part in jars] == pinned
    assert {part["name"] for part in parts["components"] if part not in jars} == names
    versions = {part["name"]: part["version"] for part in jars}
    assert (versions["spark-sql-kafka-0-10_2.13"], versions["zstd-jni"]) == ("4.2.0", "1.5.7-17")
