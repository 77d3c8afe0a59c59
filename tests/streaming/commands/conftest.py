"""Capture files, valid and invalid ones, and a fixture that runs commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from streaming.commands.main import main
from tests.streaming.captures import conforming, violating, write_capture
from tests.streaming.commands.ran import WITHOUT_JAVA, Kipwatch, Ran

FILE_HEADER = 24


@pytest.fixture(scope="session")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of capture files, named by their defects."""
    folder = tmp_path_factory.mktemp("captures")
    write_capture(folder / "clean.pcap", conforming())
    whole = write_capture(folder / "violating.pcap", violating()).read_bytes()
    (folder / "truncated.pcap").write_bytes(whole[:-10])
    (folder / "empty.pcap").write_bytes(whole[:FILE_HEADER])
    (folder / "damaged.pcap").write_bytes(whole + b"\xff" * 40)
    (folder / "nothing.pcap").write_bytes(b"")
    (folder / "text.pcap").write_text("a text is not a capture, however long it may be")
    (folder / "next.pcapng").write_bytes(b"\x0a\x0d\x0d\x0a" + bytes(40))
    return folder


@pytest.fixture
def kipwatch(capfd: pytest.CaptureFixture[str]) -> Kipwatch:
    """Run a command in this process."""

    def run(*arguments: object) -> Ran:
        status = main([str(argument) for argument in arguments])
        return Ran(status, *capfd.readouterr())

    return run


@pytest.fixture
def without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Java is found."""
    for name, value in WITHOUT_JAVA.items():
        monkeypatch.setenv(name, value)
