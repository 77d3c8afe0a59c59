"""The progress bar is shown on a terminal alone, and batches pass unchanged."""

from __future__ import annotations

import os
import pty
from pathlib import Path

import pytest

from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.packet import Packet
from streaming.check import reading_progress
from streaming.check.reading_progress import showing_progress

SIZE = 3_000 * 100
PACKETS = [PacketBatch.of([Packet(number, 1, b"", 0, number * SIZE // 3)]) for number in range(3)]


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "long.pcap"
    path.write_bytes(bytes(SIZE))
    return path


def test_a_terminal_shows_how_far_it_is(capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_progress, "LONG", 1)
    monkeypatch.setenv("TERM", "xterm")
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr("sys.stderr", terminal)
        assert list(showing_progress([capture])(PACKETS)) == PACKETS
        terminal.flush()
        shown = b""
        while b"long.pcap" not in shown:
            shown += os.read(ours, 4096)
    os.close(ours)


def test_what_is_no_terminal_shows_nothing(
    capture: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reading_progress, "LONG", 1)
    assert list(showing_progress([capture])(PACKETS)) == PACKETS
    assert capfd.readouterr() == ("", "")


def test_a_capture_that_does_not_exist_is_no_error_of_the_bar(tmp_path: Path) -> None:
    assert list(showing_progress([tmp_path / "missing.pcap"])(PACKETS)) == PACKETS
