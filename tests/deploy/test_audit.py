"""No package of the locks has a known vulnerability, where an index with advisories can be asked.

A mirror of the index may serve packages without advisories. Then pip-audit knows nothing of a release that
has some, and these tests are skipped: silence would be no result. What an index knows changes without a
commit, so `make long` asks it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.deploy.test_locks import DEVELOPERS, FEEDER, RUNTIME

PIP_AUDIT: Final = "pip-audit==2.10.1"
VULNERABLE: Final = "requests==2.19.0"
"""CVE-2018-18074 and others."""
EXPLAINED: Final[dict[str, str]] = {}
"""IDs of advisories that do not concern kipwatch, and why."""
SECONDS: Final = 300.0

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

Audit = Callable[..., dict[str, list[str]]]
"""Returns the IDs of the advisories about each package of a file; the rest of the arguments are flags."""


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Audit]:
    folder = tmp_path_factory.mktemp("audit")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True, timeout=SECONDS)
    installed = _run(folder / "venv/bin/pip", "install", "--quiet", PIP_AUDIT)
    if installed.returncode:
        pytest.skip(f"{PIP_AUDIT} cannot be installed: {_last_line(installed.stderr)}")

    def audited(requirements: Path, *flags: str) -> dict[str, list[str]]:
        given = ("--disable-pip", "--progress-spinner", "off", "--format", "json", *flags)
        done = _run(folder / "venv/bin/pip-audit", *given, "--requirement", requirements)
        if not done.stdout:
            pytest.skip(f"pip-audit could not ask: {_last_line(done.stderr)}")
        found: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
        assert "--strict" not in flags or not [each for each in found if "skip_reason" in each]
        return {each["name"]: [one["id"] for one in each.get("vulns", ())] for each in found}

    canary = folder / "vulnerable.txt"
    canary.write_text(f"{VULNERABLE}\n")
    if not any(audited(canary, "--no-deps").values()):
        pytest.skip(f"the package index has no advisories here: it knows none about {VULNERABLE}")
    yield audited


@pytest.mark.parametrize("lock", [RUNTIME, FEEDER], ids=lambda lock: lock.name)
def test_what_kipwatch_runs_with_has_no_known_vulnerability(audit: Audit, lock: Path) -> None:
    found = audit(lock, "--strict", "--require-hashes")
    assert {name: known for name, ids in found.items() if (known := set(ids) - EXPLAINED.keys())} == {}


def test_what_developers_use_has_no_known_vulnerability(audit: Audit) -> None:
    found = audit(DEVELOPERS, "--strict", "--no-deps")
    assert {name: known for name, ids in found.items() if (known := set(ids) - EXPLAINED.keys())} == {}


def _run(program: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *arguments], check=False, capture_output=True, text=True, timeout=SECONDS)


def _last_line(text: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.strip()), "no reason given")
