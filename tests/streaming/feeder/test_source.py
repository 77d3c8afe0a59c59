"""Capture files and standard input as sources: run IDs, truncation and damage."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from decoders.wire.packet import Packet
from streaming.feeder.source import TruncatedCaptureError, open_capture, run_of_file
from streaming.feeder.standard_input import standard_input
from streaming.user_error import UserError
from tests.streaming.captures import conforming, packets_of, write_capture

COUNT = len(packets_of(conforming()))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_capture(tmp_path / "a.pcap", conforming())


def test_the_run_depends_on_the_content_and_not_on_the_name(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.pcap"
    copy.write_bytes(path.read_bytes())
    assert run_of_file(copy) == run_of_file(path)
    copy.write_bytes(path.read_bytes()[:-1])
    assert run_of_file(copy) != run_of_file(path)
    assert 0 <= run_of_file(path) < 1 << 64


def test_long_files_with_equal_beginnings_differ_by_their_length(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_bytes(bytes(3_000_000))
    other.write_bytes(bytes(3_000_001))
    assert run_of_file(one) != run_of_file(other)


def test_a_complete_file_is_read_without_output(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_capture(path) as reader:
        assert len(list(reader)) == COUNT
    assert capsys.readouterr() == ("", "")


def test_a_truncated_file_yields_its_complete_packets_and_then_an_error(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])
    seen: list[Packet] = []
    message = f"{path} ends inside a packet; all complete packets were read"
    with pytest.raises(TruncatedCaptureError, match=message), open_capture(path) as reader:
        seen.extend(reader)
    assert len(seen) == COUNT - 1


def test_damage_inside_a_file_is_a_user_error(path: Path) -> None:
    """The packets before it are yielded."""
    path.write_bytes(path.read_bytes() + b"\xff" * 16)
    seen: list[Packet] = []
    with pytest.raises(UserError, match=rf"{path}: damaged: the packet"), open_capture(path) as reader:
        seen.extend(reader)
    assert len(seen) == COUNT


def test_a_missing_file_is_a_user_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file"), open_capture(tmp_path / "missing"):
        pass
    with pytest.raises(UserError, match="No such file"):
        run_of_file(tmp_path / "missing")


def nothing() -> None:
    """Nothing is due while no bytes arrive."""


@contextmanager
def piped() -> Iterator[int]:
    """A pipe in place of standard input; yields the end to write to."""
    kept, (reading, writing) = os.dup(0), os.pipe()
    os.dup2(reading, 0)
    try:
        yield writing
    finally:
        os.dup2(kept, 0)
        for descriptor in (kept, reading):
            os.close(descriptor)


def test_standard_input_is_read_as_it_arrives(path: Path) -> None:
    content = path.read_bytes()
    with piped() as writing:
        batches = standard_input(lambda: False, nothing)
        os.write(writing, content[:-10])
        first = next(batches)
        assert first.size == COUNT - 1
        os.write(writing, content[-10:])
        assert next(batches).size == 1
        os.close(writing)
        assert list(batches) == []


def test_an_error_of_standard_input_names_it(path: Path) -> None:
    with piped() as writing:
        os.write(writing, b"text")
        os.close(writing)
        with pytest.raises(UserError, match="standard input: not a pcap file"):
            next(standard_input(lambda: False, nothing))
    with piped() as writing:
        os.write(writing, path.read_bytes()[:-1])
        os.close(writing)
        with pytest.raises(TruncatedCaptureError, match="standard input ends inside a packet"):
            list(standard_input(lambda: False, nothing))


@pytest.mark.parametrize("written", [0, 24, -10], ids=["nothing", "a header", "part of a packet"])
def test_an_idle_pipe_ends_when_the_feeder_stops(path: Path, written: int) -> None:
    stopping = threading.Event()
    with piped() as writing:
        os.write(writing, path.read_bytes()[:written] if written else b"")
        threading.Timer(0.3, stopping.set).start()
        idle: list[None] = []
        list(standard_input(stopping.is_set, lambda: idle.append(None)))
        assert len(idle) >= 2, "what is due meanwhile is done every 50 ms"
        os.close(writing)
