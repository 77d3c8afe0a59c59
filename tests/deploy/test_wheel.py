"""The wheel in an empty environment: what needs no Spark and no Java works, the rest says what it needs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.captures.recording import FOLDER as CAPTURES
from tests.repository.tree import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

CAPTURE = str(CAPTURES / "real_clients.pcap")
PORTS = ("--ports", "38433")
Kipwatch = Callable[..., "subprocess.CompletedProcess[str]"]


PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    subprocess.run([*PIP, "wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT)], check=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def kipwatch(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Kipwatch:
    """Run the installed command outside of the repository, on a machine without Java."""
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    python = folder / "venv/bin/python"
    # The lock gives the versions, and the metadata of the wheel what is installed.
    target = [
        *PIP,
        "--python",
        str(python),
        "install",
        "--constraint",
        str(ROOT / "requirements.lock"),
        str(wheel),
    ]
    subprocess.run(target, check=True)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": str(folder / "venv/bin"), "HOME": os.environ.get("HOME", str(folder))}
        command = [str(folder / "venv/bin/kipwatch"), *arguments]
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=600
        )

    return run


def test_captures_are_checked_decoded_and_reported(kipwatch: Kipwatch, tmp_path: Path) -> None:
    checked = kipwatch("check", *PORTS, CAPTURE)
    assert (checked.returncode, checked.stderr) == (0, ""), checked.stderr
    assert '"api":"ApiVersions"' in kipwatch("decode", "--jsonl", *PORTS, CAPTURE).stdout
    page = tmp_path / "fleet.html"
    assert kipwatch("report", *PORTS, "--html", str(page), CAPTURE).returncode == 0
    assert page.stat().st_size > 10_000


def test_the_feeder_reads_captures(kipwatch: Kipwatch) -> None:
    fed = kipwatch("feed", *PORTS, CAPTURE, "--dry-run")
    assert fed.returncode == 0, fed.stderr


@pytest.mark.parametrize("arguments", [["rules"], ["schemas"], ["doctor"], ["--version"]])
def test_what_needs_no_capture(kipwatch: Kipwatch, arguments: list[str]) -> None:
    done = kipwatch(*arguments)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("command", "extra"), [("run", "run"), ("demo", "run,audit"), ("audit", "audit")])
def test_a_missing_extra_is_one_line(kipwatch: Kipwatch, command: str, extra: str) -> None:
    done = kipwatch(command)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert f"pip install 'kipwatch[{extra}]'" in done.stderr


def test_the_command_says_in_one_line_where_the_benches_are(kipwatch: Kipwatch) -> None:
    done = kipwatch("bench", "decode")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "streaming/bench" in done.stderr and "kipwatch bench decode" in done.stderr


@pytest.mark.jvm
@pytest.mark.long
def test_a_dry_run_of_the_query_finds_the_pins_of_its_jars(wheel: Path, tmp_path: Path) -> None:
    """Spark and all else are borrowed from this environment: installing them would take 450 MB."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    python = tmp_path / "venv/bin/python"
    subprocess.run([*PIP, "--python", str(python), "install", "--no-deps", str(wheel)], check=True)
    (installed,) = (tmp_path / "venv/lib").glob("python*/site-packages")
    spark = find_spec("pyspark")
    assert spark is not None and spark.origin is not None
    (installed / "borrowed.pth").write_text(str(Path(spark.origin).parents[1]))
    command = [str(tmp_path / "venv/bin/kipwatch"), "run", "--dry-run"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    assert str(ROOT) not in done.stdout + done.stderr
    assert '"frames_topic": "kipwatch.frames"' in done.stdout and "== Physical Plan ==" in done.stdout


def test_it_puts_one_name_beside_other_packages(wheel: Path) -> None:
    """It has neither tests nor benches nor leftovers of tools."""
    names = ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"kipwatch"}
    assert {"decoders", "expectations", "streaming", "dashboards"} <= {
        name.split("/")[1] for name in names if name.startswith("kipwatch/")
    }
    left_out = ("/tests/", "/streaming/bench/")
    assert not [name for name in names if name.endswith(".pyc") or any(part in name for part in left_out)]


def test_an_editable_install_copies_no_module(tmp_path: Path) -> None:
    """A copy would hide later changes of the checkout."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    python = tmp_path / "venv/bin/python"
    command = [*PIP, "--python", str(python), "install", "--no-deps", "--editable", str(ROOT)]
    subprocess.run(command, check=True)
    (installed,) = (tmp_path / "venv/lib").glob("python*/site-packages")
    assert not [path for path in installed.rglob("*.py") if "kipwatch" in str(path.relative_to(installed))]
    find = [
        str(python),
        "-I",
        "-c",
        "import kipwatch, streaming; print(kipwatch.__file__, streaming.__file__)",
    ]
    found = subprocess.run(find, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.split()
    assert found == [str(ROOT / "kipwatch/__init__.py"), str(ROOT / "streaming/__init__.py")]


def test_the_licence_and_the_pins_of_the_jars_are_in_the_wheel(wheel: Path) -> None:
    names = {Path(name).name for name in ZipFile(wheel).namelist()}
    assert {"LICENSE", "ivy.xml", "ivysettings.xml", "alerts.yml"} <= names
