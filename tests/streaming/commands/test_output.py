"""Output that cannot be written, that nobody reads, in another locale, about odd names, or of nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.streaming.commands.ran import Kipwatch, run_process

ODD = Path(os.fsdecode(b"caf\xe9.pcap"))
"""A name of a file that is no UTF-8."""


@pytest.fixture
def odd(tmp_path: Path, captures: Path) -> Path:
    """A capture under a name that is no UTF-8."""
    path = tmp_path / ODD
    path.write_bytes((captures / "violating.pcap").read_bytes())
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("redirection", "line"),
    [
        (">/dev/full", "cannot write: No space left on device"),
        (">&-", "standard output is closed; for no output add >/dev/null"),
    ],
)
@pytest.mark.parametrize("command", ["check", "decode"])
def test_output_that_cannot_be_written_is_one_line(
    captures: Path, command: str, redirection: str, line: str
) -> None:
    """The status is not that of a violation."""
    script = f"exec {sys.executable} -m streaming.commands.main {command} {captures}/clean.pcap {redirection}"
    ran = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stderr) == (2, f"kipwatch: {line}\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "capture", "status"), [("decode", "clean.pcap", 0), ("check", "violating.pcap", 1)]
)
def test_a_closed_pipe_is_no_error_and_a_violation_fails_all_the_same(
    captures: Path, command: str, capture: str, status: int
) -> None:
    """`| head` closes it, also if all output fits into one buffer. Scripts may have set `pipefail`."""
    reading, writing = os.pipe()
    os.close(reading)
    ran = subprocess.run(
        [sys.executable, "-m", "streaming.commands.main", command, captures / capture],
        stdout=writing,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONUNBUFFERED": ""},
    )
    os.close(writing)
    assert (ran.returncode, ran.stderr) == (status, b"")


@pytest.mark.slow
def test_output_is_utf_8_in_any_locale(captures: Path) -> None:
    capture = captures / "violating.pcap"
    ran = run_process("check", capture, LC_ALL="POSIX", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert (ran.status, ran.errors) == (1, "")
    assert "→" in ran.output


def test_a_file_may_have_a_name_that_is_no_text(kipwatch: Kipwatch, odd: Path, tmp_path: Path) -> None:
    ran = kipwatch("check", "--json", odd)
    found = json.loads(ran.output)
    assert (ran.status, ran.errors) == (1, "")
    assert found["files"][0]["file"] == f"{tmp_path}/caf\\xe9.pcap"
    assert found["findings"][0]["evidence"]["source"] == "caf\\xe9.pcap"
    report = kipwatch("report", "--json", "--archive", tmp_path / "archive", odd)
    assert (report.status, report.errors) == (0, "")
    assert json.loads(report.output)["summary"]["findings"] == found["findings"]


def test_a_name_of_a_file_breaks_no_line(kipwatch: Kipwatch, captures: Path, tmp_path: Path) -> None:
    path = tmp_path / "a\nb\x1b[31m.pcap"
    assert kipwatch("check", path).error_line == f"cannot read {tmp_path}/a\\nb\\x1b[31m.pcap: " + (
        "No such file or directory"
    )
    path.write_bytes((captures / "violating.pcap").read_bytes())
    assert f"{tmp_path}/a\\nb\\x1b[31m.pcap: " in kipwatch("check", path).output


@pytest.mark.parametrize("flags", [["--client-id", "nobody"], ["--group", "none"], ["--api", "999"]])
def test_a_choice_that_no_frame_meets_is_told(kipwatch: Kipwatch, captures: Path, flags: list[str]) -> None:
    ran = kipwatch("decode", *flags, captures / "clean.pcap")
    assert ran == (0, "", "kipwatch: no frame is one that the flags choose\n")
