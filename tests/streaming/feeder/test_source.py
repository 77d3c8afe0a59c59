"""Capture files as sources: named by their content, and bad ones told of."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from streaming.failure import UserError
from streaming.feeder.source import TruncatedCaptureError, open_capture, run_of_file, standard_input
from tests.streaming.captures import conforming, packets_of, write_capture

COUNT = len(packets_of(conforming()))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_capture(tmp_path / "a.pcap", conforming())


def test_the_run_follows_from_the_content_not_from_the_name(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.pcap"
    copy.write_bytes(path.read_bytes())
    assert run_of_file(copy) == run_of_file(path)
    copy.write_bytes(path.read_bytes()[:-1])
    assert run_of_file(copy) != run_of_file(path)
    assert 0 <= run_of_file(path) < 1 << 64


def test_long_files_that_begin_alike_are_told_apart_by_their_length(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_bytes(bytes(3_000_000))
    other.write_bytes(bytes(3_000_001))
    assert run_of_file(one) != run_of_file(other)


def test_a_whole_file_is_read_in_silence(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_capture(path) as reader:
        assert len(list(reader)) == COUNT
    assert capsys.readouterr() == ("", "")


def test_a_file_that_ends_inside_a_packet_gives_the_whole_ones_and_then_says_so(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])
    seen = []
    message = f"{path} ends inside a packet; what is whole was read"
    with pytest.raises(TruncatedCaptureError, match=message), open_capture(path) as reader:
        seen.extend(reader)
    assert len(seen) == COUNT - 1


def test_damage_met_while_reading_is_a_users_error(path: Path) -> None:
    """The packets before it were given."""
    path.write_bytes(path.read_bytes() + b"\xff" * 16)
    seen = []
    with pytest.raises(UserError, match=rf"{path}: damaged pcap file"), open_capture(path) as reader:
        seen.extend(reader)
    assert len(seen) == COUNT


def test_a_file_that_is_not_there_is_a_users_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file"), open_capture(tmp_path / "missing"):
        pass
    with pytest.raises(UserError, match="No such file"):
        run_of_file(tmp_path / "missing")


def test_standard_input_is_read_as_a_file_is(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And named as what it is when it is no pcap."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    with standard_input() as reader:
        assert len(list(reader)) == COUNT
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"text")))
    with pytest.raises(UserError, match="standard input: not a pcap file"), standard_input():
        pass
