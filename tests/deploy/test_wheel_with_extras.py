"""The wheel with each extra in an environment of its own: as large as docs/install.md says, and whole."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.test_wheel import CAPTURE, PIP
from tests.repository.tree import ROOT

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

ROWS = re.findall(
    r"^\| `(kipwatch\S*)` \| .* \| (\d+) \| ([\d,]+) \|$",
    (ROOT / "docs/install.md").read_text(),
    re.MULTILINE,
)
"""What is installed, the number of packages, MB."""
DIFFERENCE = 0.1
COMMANDS = {
    "kipwatch": [["kipwatch", "check", "--quiet", CAPTURE]],
    "kipwatch[run]": [["kipwatch", "run", "--dry-run"]],
    "kipwatch[audit]": [
        ["kipwatch", "report", "--archive", "archive", CAPTURE],
        ["kipwatch", "audit", "--archive", "archive"],
    ],
    "kipwatch[dashboards]": [["python", "-m", "dashboards.build", "--check"]],
}
"""What each install is for. Dashboards are written from a checkout."""


def installed(what: str, folder: Path) -> Path:
    """Make an environment with the wheel and extras. Returns its folder."""
    subprocess.run([*PIP, "wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT)], check=True)
    (wheel,) = folder.glob("*.whl")
    environment = folder / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    lock = ["--constraint", str(ROOT / "requirements.lock")]
    named = f"{wheel}{what.removeprefix('kipwatch')}"
    install = [*PIP, "--python", str(environment / "bin/python"), "install", *lock, named]
    subprocess.run(install, check=True, timeout=900)
    return environment


@pytest.mark.parametrize(("what", "packages", "megabytes"), ROWS, ids=[row[0] for row in ROWS])
def test_an_install_has_the_stated_size(what: str, packages: str, megabytes: str, tmp_path: Path) -> None:
    environment = installed(what, tmp_path)
    count = len([*environment.glob("lib/python*/site-packages/*.dist-info")])
    size = sum(path.lstat().st_size for path in environment.rglob("*") if path.is_file()) / 1e6
    print(f"{what}: {count} packages, {size:.0f} MB")
    assert abs(size / int(megabytes.replace(",", "")) - 1) < DIFFERENCE
    assert count == int(packages), f"{count}, {size:.0f} MB"
    for command in COMMANDS[what]:
        run(environment, command, ROOT if command[0] == "python" else tmp_path)


def run(environment: Path, command: list[str], folder: Path) -> None:
    """Run a command, which must succeed, with an environment's programs first on the path."""
    search = {"PATH": f"{environment / 'bin'}:{os.environ['PATH']}"}
    done = subprocess.run(
        command, cwd=folder, env=os.environ | search, capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.jvm
@pytest.mark.e2e
def test_a_demo_finds_every_offence(tmp_path: Path) -> None:
    """Outside of the repository, with what its extras install."""
    environment = installed("kipwatch[run,audit]", tmp_path)
    run(environment, ["kipwatch", "demo", "--relay"], tmp_path)


def test_the_page_states_every_size() -> None:
    extras = {"run", "audit", "dashboards"}
    assert {what for what, _, _ in ROWS} == {"kipwatch", *(f"kipwatch[{extra}]" for extra in extras)}
