"""A recording: the packets of all files are read once, file by file, with the positions in their files.

The progress bar is shown on a terminal alone, and batches pass unchanged.
"""

from __future__ import annotations

import os
import pty
from pathlib import Path

import pytest

from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.segment import Packet
from streaming.check import recording
from streaming.check.recording import FILE_SHIFT, Recording, showing_progress
from streaming.user_error import UserError
from tests.streaming.captures import write_packets

ETHERNET = 1


def written(folder: Path, name: str, *times: int) -> Path:
    """A file with a packet of one byte at each of these times."""
    data = name[:1].encode()
    return write_packets(folder / f"{name}.pcap", [Packet(at * 1_000, ETHERNET, data, 1) for at in times])


def read(recording: Recording) -> str:
    return b"".join(packet.data for packet in recording).decode()


def test_files_are_read_in_the_order_of_their_first_packets(tmp_path: Path) -> None:
    """Also if they overlap: their packets are not merged."""
    late, early, empty = (written(tmp_path, *what) for what in (("late", 3, 4), ("early", 2, 5), ("none",)))
    for paths in ([late, early, empty], [empty, early, late], [tmp_path]):
        assert read(Recording(paths)) == "eell"


def test_the_position_of_a_packet_identifies_its_file(tmp_path: Path) -> None:
    paths = [written(tmp_path, "a", 1, 2), written(tmp_path, "b", 3, 4)]
    alone = [packet.position for packet in Recording(paths[:1])]
    assert alone[0] == 24
    places = [divmod(packet.position, 1 << FILE_SHIFT) for packet in Recording(paths)]
    assert places == [(file, position) for file in range(2) for position in alone]


def test_a_file_that_is_named_twice_is_read_once(tmp_path: Path) -> None:
    path = written(tmp_path, "a", 1)
    twice = Recording([path, tmp_path, path])
    assert (read(twice), twice.files) == ("a", [path])


def test_the_run_depends_on_the_files_and_not_on_their_order(tmp_path: Path) -> None:
    paths = [written(tmp_path, "a", 1), written(tmp_path, "b", 2)]
    (run,) = {Recording(named).run for named in (paths, paths[::-1], [*paths, *paths])}
    assert run not in {Recording([path]).run for path in paths}


def test_a_file_that_ends_inside_a_packet_is_named_once_it_was_read(tmp_path: Path) -> None:
    whole, cut = written(tmp_path, "a", 1), written(tmp_path, "b", 2, 3)
    cut.write_bytes(cut.read_bytes()[:-1])
    recording = Recording([whole, cut])
    assert recording.truncated == set()
    assert read(recording) == "ab"
    assert recording.truncated == {cut}


def test_the_files_behind_a_damaged_one_are_read(tmp_path: Path) -> None:
    at_once, damaged, behind = (written(tmp_path, *what) for what in (("c",), ("a", 1), ("b", 2, 3)))
    for path in (at_once, damaged):
        path.write_bytes(path.read_bytes() + b"\xff" * 40)
    recording = Recording([behind, damaged, at_once])
    assert read(recording) == "abb"
    for path, told in zip((at_once, damaged), recording.unread, strict=True):
        assert told.startswith(f"{path}: damaged: the packet at byte")


def test_what_is_no_capture_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no capture")
    with pytest.raises(UserError, match=r"notes\.txt: not a pcap file"):
        Recording([written(tmp_path, "a", 1), tmp_path / "notes.txt"])


SIZE = 3_000 * 100
PACKETS = [PacketBatch.of([Packet(number, 1, b"", 0, number * SIZE // 3)]) for number in range(3)]


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "long.pcap"
    path.write_bytes(bytes(SIZE))
    return path


def test_a_terminal_shows_how_far_it_is(capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "LONG", 1)
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
    monkeypatch.setattr(recording, "LONG", 1)
    assert list(showing_progress([capture])(PACKETS)) == PACKETS
    assert capfd.readouterr() == ("", "")


def test_a_capture_that_does_not_exist_is_no_error_of_the_bar(tmp_path: Path) -> None:
    assert list(showing_progress([tmp_path / "missing.pcap"])(PACKETS)) == PACKETS
