"""A demo whose query stands still gives up, and leaves the user with what there is."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from streaming.check.examination import examine
from streaming.commands.main import MISUSE, main
from streaming.settings.release import load_schemas

pytestmark = [pytest.mark.jvm, pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(280)]

LIMIT = 5.0


@contextmanager
def stopping_the_query(scratch: Path, recording: Path) -> Iterator[None]:
    """Stop (SIGSTOP) the demo's query when it begins to load; let it go on when the recording is saved."""
    ended = threading.Event()

    def stop_and_continue() -> None:
        while not ended.is_set() and (query := query_in(scratch)) is None:
            time.sleep(0.05)
        if query is not None:
            os.kill(query, signal.SIGSTOP)
            while not ended.is_set() and not recording.exists():
                time.sleep(0.1)
            with suppress(ProcessLookupError):
                os.kill(query, signal.SIGCONT)

    thread = threading.Thread(target=stop_and_continue)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def query_in(scratch: Path) -> int | None:
    """The process of `kipwatch run` whose checkpoint is in a folder; its guard is another process."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            arguments = path.read_text().split("\0")
            if arguments[2:5] == ["-m", "kipwatch", "run"] and str(scratch) in path.read_text():
                return int(path.parent.name)
    return None


def test_a_demo_that_stands_still_shows_and_keeps_what_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recording, scratch = tmp_path / "demo.pcap", tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("streaming.demo.demo.STALLED_SECONDS", LIMIT)
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    monkeypatch.setenv("TMPDIR", str(scratch))
    with stopping_the_query(scratch, recording):
        assert main(["demo", "--recording", str(recording)]) == MISUSE
    shown = capsys.readouterr()
    assert "blocks wait to be judged; the query is loading" in shown.out
    assert "Found so far\nnothing" in shown.out
    (line,) = shown.err.splitlines()
    assert "nothing has moved for" in line
    assert f"`kipwatch check {recording}` judges it without Spark" in line
    assert len(examine(recording, load_schemas("")).findings) > 30
    assert list(scratch.iterdir()) == []
