"""The plugin of pytest, in a pytest of its own: a suite whose client greets a broker, as it should or not."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kipwatch.greeted_broker import BROKEN, NAMES, greeted_broker, greeting

pytestmark = pytest.mark.slow

SUITE = """
import socket
import pytest

@pytest.fixture(scope="session")
def bootstrap(kipwatch_record):
    return kipwatch_record({address!r})

def greet(bootstrap, frame):
    host, port = bootstrap.split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(bytes.fromhex(frame))
        assert connection.recv(4)

def test_well(bootstrap):
    greet(bootstrap, {well!r})

def test_badly(bootstrap):
    greet(bootstrap, {badly!r})

def test_silent(bootstrap):
    pass

def test_without_broker():
    pass
"""


@pytest.fixture
def suite(tmp_path: Path) -> Iterator[Path]:
    """The folder of the suite, whose broker runs."""
    with greeted_broker() as broker:
        requests = {manner: greeting(name).hex() for manner, name in NAMES.items()}
        text = SUITE.format(address=broker, **requests)
        (tmp_path / "test_suite.py").write_text(text)
        yield tmp_path


def run(suite: Path, *flags: str) -> tuple[int, str]:
    """Run pytest in the suite's folder; returns its status and what it printed."""
    command = [sys.executable, "-m", "pytest", "-p", "kipwatch.pytest_plugin", "-p", "no:cacheprovider"]
    done = subprocess.run([*command, *flags], cwd=suite, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_a_suite_that_breaks_nothing_passes(suite: Path) -> None:
    status, printed = run(suite, "-k", "well or without")
    assert status == 0, printed
    assert "2 passed" in printed
    assert "kipwatch: 2 frames to 127.0.0.1:" in printed


def test_a_suite_that_breaks_a_rule_fails_and_names_rule_and_test(suite: Path) -> None:
    status, printed = run(suite, "--kipwatch-folder", "report", "-k", "not silent")
    assert status == 1, printed
    assert "3 passed, 1 deselected, 1 error" in printed
    assert f"violation {BROKEN}" in printed
    assert "(test_suite.py::test_badly)" in printed
    (report,) = (suite / "report").iterdir()
    failed = [case.get("name") for case in ET.parse(report / "check.xml").iter("testcase") if len(case) > 0]
    assert BROKEN in failed
    assert list((report / "evidence").glob("*.pcap"))


def test_further_flags_decide_what_fails(suite: Path) -> None:
    status, printed = run(suite, "--kipwatch-flags", "--fail-on never", "-k", "badly")
    assert status == 0, printed
    assert "1 finding in" in printed


def test_a_suppressed_finding_is_listed_and_fails_nothing(suite: Path) -> None:
    """What a team has decided to live with stays in sight, with the reason."""
    config = suite / "kipwatch.toml"
    config.write_text(f'[[suppress]]\nrule = "{BROKEN}"\nreason = "renamed in 2.4"\nuntil = 2999-01-01\n')
    status, printed = run(suite, "--kipwatch-flags", f"--config {config}", "-k", "badly")
    assert status == 0, printed
    assert ", 0 findings in" in printed
    assert re.search(rf"suppressed \(until 2999-01-01: renamed in 2\.4\) {BROKEN}: .*test_badly", printed), (
        printed
    )


def test_each_worker_of_xdist_has_its_report(suite: Path) -> None:
    status, printed = run(suite, "-n", "2", "--dist", "each", "-k", "badly")
    assert status == 1, printed
    assert {folder.name for folder in (suite / "kipwatch").iterdir()} == {"gw0-1", "gw1-1"}


def test_a_suite_that_goes_past_the_relays_fails(suite: Path) -> None:
    status, printed = run(suite, "-k", "silent")
    assert status == 1, printed
    assert "the command opened no connection to the relay" in printed


@pytest.mark.parametrize(
    "flags",
    [
        ("--kipwatch-flags", "--fail-on weather"),
        ("--kipwatch-flags", "--save 'unended"),
        ("--kipwatch-folder", "/proc/kipwatch"),
    ],
)
def test_flags_that_cannot_be_used_are_told(suite: Path, flags: tuple[str, str]) -> None:
    status, printed = run(suite, *flags, "-k", "well")
    assert status == 1, printed
    assert "kipwatch record did not start" in printed
    assert "Error: " not in printed


def provoking(suite: Path, what: str) -> Path:
    """Let the suite's client be provoked."""
    text = (suite / "test_suite.py").read_text()
    (suite / "test_suite.py").write_text(text.replace("')", f"', provoke='{what}')", 1))
    return suite


def test_a_client_is_provoked_by_the_fixture(suite: Path) -> None:
    status, output = run(provoking(suite, "software-refused"), "-k", "well")
    assert status == 0, output
    assert "1 requests to" in output
    assert "; software-refused: conforms" in output


def test_a_provoked_client_that_breaks_a_rule_fails_the_session(suite: Path) -> None:
    status, output = run(provoking(suite, "software-refused"))
    assert status == 1
    assert f"violation {BROKEN}" in output


def test_one_provocation_is_named(suite: Path) -> None:
    status, output = run(provoking(suite, "all"), "-k", "well")
    assert status == 1
    assert "name one provocation: a session is one run" in output
