"""Pipes and standard input: read as files are, by every command that reads captures."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.streaming.commands.ran import Kipwatch, run_process

_COMMAND = [sys.executable, "-m", "streaming.commands.main"]


@contextmanager
def fifo(folder: Path, content: bytes) -> Iterator[Path]:
    """A named pipe into which the content is written once."""
    path = folder / "capture.fifo"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(content,), daemon=True)
    writer.start()
    yield path
    writer.join(10)


def judged(output: str) -> list[tuple[str, str, int]]:
    return [(each["rule"], each["client"], each["occurrences"]) for each in json.loads(output)["findings"]]


def test_standard_input_is_judged_as_the_file(kipwatch: Kipwatch, captures: Path) -> None:
    path = captures / "violating.pcap"
    file, piped = (
        kipwatch("check", "--json", path),
        run_process("check", "--json", "-", stdin=path.read_bytes()),
    )
    assert (piped.status, piped.errors) == (file.status, "") == (1, "")
    assert judged(piped.output) == judged(file.output)
    (read,) = json.loads(piped.output)["files"]
    assert (read["file"], read["frames"] > 0) == ("-", True)


def test_a_process_substitution_is_judged_as_the_file(kipwatch: Kipwatch, captures: Path) -> None:
    path = captures / "violating.pcap"
    script = f'{" ".join(_COMMAND)} check --json <(gzip < "$0")'
    ran = subprocess.run(["bash", "-c", script, path], capture_output=True, timeout=60, check=False)
    assert (ran.returncode, ran.stderr.decode()) == (1, "")
    assert judged(ran.stdout.decode()) == judged(kipwatch("check", "--json", path).output) != []


def test_a_named_pipe_is_judged_and_gives_evidence(
    tmp_path: Path, kipwatch: Kipwatch, captures: Path
) -> None:
    """A capture is read three times for this, and a pipe gives its bytes once."""
    with fifo(tmp_path, (captures / "violating.pcap").read_bytes()) as path:
        ran = kipwatch("check", "--json", "--evidence", tmp_path / "evidence", path)
    assert (ran.status, ran.errors) == (1, "")
    assert len(list((tmp_path / "evidence").iterdir())) == len(judged(ran.output)) > 0


def test_report_reads_standard_input(captures: Path) -> None:
    ran = run_process("report", "--json", "-", stdin=(captures / "clean.pcap").read_bytes())
    assert (ran.status, ran.errors) == (0, "")
    assert json.loads(ran.output)["summary"]["frames"] == 3


@pytest.mark.parametrize("flags", [["--ledger"], ["--group", "orders"]])
def test_decode_shows_of_standard_input_what_it_shows_of_the_file(
    kipwatch: Kipwatch, captures: Path, flags: list[str]
) -> None:
    path = captures / "clean.pcap"
    piped = run_process("decode", "-", *flags, stdin=path.read_bytes())
    of_file = kipwatch("decode", path, *flags)
    assert (piped.status, piped.output, piped.errors) == (0, of_file.output, of_file.errors)


def test_decode_shows_frames_while_the_pipe_is_open(captures: Path) -> None:
    """As `tcpdump -w - | kipwatch decode -` of a running client."""
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "streaming.commands.main", "decode", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as ran:
        assert ran.stdin is not None
        assert ran.stdout is not None
        ran.stdin.write((captures / "violating.pcap").read_bytes())
        ran.stdin.flush()
        assert b"ApiVersions" in ran.stdout.readline() + ran.stdout.readline()
        ran.stdin.close()


@pytest.mark.parametrize("command", ["check", "decode"])
@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"", "standard input: empty: it holds not a single byte"),
        (b"a text is not a capture, however long", "standard input: not a pcap file"),
    ],
)
def test_what_is_no_capture_is_told_of_standard_input(command: str, content: bytes, line: str) -> None:
    assert run_process(command, "-", stdin=content).error_line == line


@pytest.mark.parametrize("command", ["check", "decode"])
def test_a_pipe_that_ends_inside_a_packet_is_told(command: str, captures: Path) -> None:
    ran = run_process(command, "-", stdin=(captures / "truncated.pcap").read_bytes())
    assert ran.status == 2
    assert ran.errors == "kipwatch: standard input ends inside a packet; all complete packets were read\n"


def test_what_cannot_be_kept_is_told(captures: Path) -> None:
    """The file that keeps a pipe lies in the folder of temporary files, which may be full."""
    content = (captures / "violating.pcap").read_bytes() + bytes(4096)
    script = f"ulimit -f 1; trap '' XFSZ; exec {' '.join(_COMMAND)} check -"
    ran = subprocess.run(["bash", "-c", script], input=content, capture_output=True, timeout=60, check=False)
    assert ran.returncode == 2
    assert ran.stderr.decode().startswith("kipwatch: cannot read standard input and keep it in /")
    assert ran.stderr.count(b"\n") == 1


def test_a_feeder_follows_a_named_pipe(tmp_path: Path, captures: Path) -> None:
    with fifo(tmp_path, (captures / "clean.pcap").read_bytes()) as path:
        ran = run_process("feed", path, "--dry-run", "--ports", "9092")
    assert (ran.status, ran.errors) == (0, "")
    assert json.loads(ran.output.splitlines()[-1])["bytes"]["framed"] > 0


def test_a_feeder_waits_for_the_first_file_of_a_folder(tmp_path: Path, captures: Path) -> None:
    """It may be started before the tcpdump that writes there."""
    command = [*_COMMAND, "feed", str(tmp_path), "--dry-run", "--ports", "9092"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as feeder:
        assert feeder.stdout is not None
        waiting = json.loads(feeder.stdout.readline())
        assert waiting["message"] == f"{tmp_path} holds no capture with packets yet"
        (tmp_path / "a.pcap").write_bytes((captures / "clean.pcap").read_bytes())
        lines = iter(feeder.stdout.readline, "")
        assert any("request ApiVersions" in line or "request API 18" in line for line in lines)
        feeder.send_signal(signal.SIGINT)
        assert feeder.wait(60) == 0


def test_a_file_of_a_folder_that_is_no_capture_hides_no_finding(
    tmp_path: Path, kipwatch: Kipwatch, captures: Path
) -> None:
    (tmp_path / "a.pcap").write_bytes((captures / "violating.pcap").read_bytes())
    alone = kipwatch("check", "--json", tmp_path)
    assert alone.status == 1
    (tmp_path / "notes.txt").write_text("these captures are of Monday's test")
    ran = kipwatch("check", "--json", tmp_path)
    line = f"{tmp_path}/notes.txt: not a pcap file"
    assert (ran.status, ran.errors) == (2, f"kipwatch: {line}; all that could be read was judged\n")
    assert judged(ran.output) == judged(alone.output) != []
    assert json.loads(ran.output)["unread"] == [line]
    report = kipwatch("report", tmp_path)
    assert (report.status, report.errors) == (2, ran.errors)


def test_a_folder_without_any_capture_names_the_first_file(tmp_path: Path, kipwatch: Kipwatch) -> None:
    (tmp_path / "notes.txt").write_text("these captures are of Monday's test")
    line = kipwatch("check", tmp_path).error_line
    assert line == f"{tmp_path}/notes.txt: not a pcap file; name a capture or a folder of captures"
