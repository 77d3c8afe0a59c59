"""Captures and evidence are for their owner only."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from streaming.feeder.feeder import open_save
from streaming.settings.private_file import open_private


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_file_is_never_readable_by_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even between its creation and the change of its mode."""
    monkeypatch.setattr(os, "fchmod", lambda descriptor, mode: None)
    before = os.umask(0)
    try:
        open_save(tmp_path / "capture.pcap").close()
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "capture.pcap") == 0o600


def test_a_file_that_exists_is_closed_to_others_and_emptied(tmp_path: Path) -> None:
    path = tmp_path / "capture.pcap"
    path.write_text("earlier")
    path.chmod(0o644)
    with open_private(path) as stream:
        stream.write(b"new")
    assert (mode_of(path), path.read_bytes()) == (0o600, b"new")


def test_a_device_keeps_its_mode() -> None:
    before = mode_of(Path(os.devnull))
    open_private(Path(os.devnull)).close()
    assert mode_of(Path(os.devnull)) == before
