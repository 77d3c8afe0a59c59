"""A folder of rotated captures: read in order of time, each packet once, and followed as it grows."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.packet import Packet
from decoders.wire.pcap import PcapWriter
from streaming.feeder import folder as folder_module
from streaming.feeder.folder import follow
from streaming.feeder.source import TruncatedCaptureError, open_capture, run_of_file
from streaming.user_error import UserError

PACKETS = [Packet(number, 1, bytes([number]) * 20, 20) for number in range(1, 10)]


def write(path: Path, packets: list[Packet]) -> None:
    with path.open("wb") as stream:
        writer = PcapWriter(stream, 1)
        for packet in packets:
            writer.write(packet)


def read(folder: Path) -> list[Packet]:
    with open_capture(folder) as capture:
        return list(capture)


def without_position(packets: list[Packet]) -> list[Packet]:
    return [packet._replace(position=0) for packet in packets]


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_module, "POLL_SECONDS", 0)


def test_the_files_of_a_ring_are_read_in_the_order_of_their_packets(tmp_path: Path) -> None:
    """Not of their names: the ring has returned to the first file."""
    write(tmp_path / "ring0", PACKETS[6:])
    write(tmp_path / "ring1", PACKETS[:3])
    write(tmp_path / "ring2", PACKETS[3:6])
    write(tmp_path / "ring3", [])
    (tmp_path / "ring4").touch()
    packets = read(tmp_path)
    assert without_position(packets) == PACKETS
    positions = [packet.position for packet in packets]
    assert positions == sorted(set(positions))


def test_a_file_and_its_compressed_copy_count_once(tmp_path: Path) -> None:
    write(tmp_path / "a.pcap", PACKETS)
    (tmp_path / "a.pcap.gz").write_bytes(gzip.compress((tmp_path / "a.pcap").read_bytes()))
    assert without_position(read(tmp_path)) == PACKETS


def test_the_run_stays_while_the_folder_grows(tmp_path: Path) -> None:
    write(tmp_path / "a", PACKETS[:1])
    run = run_of_file(tmp_path)
    write(tmp_path / "a", PACKETS[:3])
    write(tmp_path / "b", PACKETS[3:])
    assert run_of_file(tmp_path) == run


def test_a_truncated_file_is_an_error_after_all_packets(tmp_path: Path) -> None:
    write(tmp_path / "a", PACKETS[:3])
    (tmp_path / "a").write_bytes((tmp_path / "a").read_bytes()[:-1])
    write(tmp_path / "b", PACKETS[3:])
    seen: list[Packet] = []
    with pytest.raises(TruncatedCaptureError, match="a file in"), open_capture(tmp_path) as capture:
        seen.extend(capture)
    assert without_position(seen) == PACKETS[:2] + PACKETS[3:]


@pytest.mark.parametrize("content", [None, b"notes about the capture, no capture"])
def test_a_folder_without_captures_is_a_user_error(tmp_path: Path, content: bytes | None) -> None:
    if content:
        (tmp_path / "notes.txt").write_bytes(content)
    with pytest.raises(UserError, match=str(tmp_path)):
        read(tmp_path)


def read_until_pause(batches: Iterator[PacketBatch]) -> list[Packet]:
    """The packets until the next pause, without positions."""
    packets: list[Packet] = []
    while (batch := next(batches)).size:
        packets.extend(batch.packets())
    return without_position(packets)


def test_a_followed_folder_yields_old_and_then_new_packets(tmp_path: Path) -> None:
    """A half-written packet, the last one of a file, and the first one of the next."""
    path = tmp_path / "a"
    write(path, PACKETS[:4])
    whole = path.read_bytes()
    path.write_bytes(whole[:-7])
    batches = follow(tmp_path)
    assert read_until_pause(batches) == PACKETS[:3]
    assert read_until_pause(batches) == []
    path.write_bytes(whole)
    assert read_until_pause(batches) == PACKETS[3:4]
    write(path, PACKETS[:5])
    (tmp_path / "b").touch()
    assert read_until_pause(batches) == PACKETS[4:5]
    write(tmp_path / "b", PACKETS[5:])
    assert read_until_pause(batches) == PACKETS[5:]


def test_following_waits_for_the_first_file(tmp_path: Path) -> None:
    batches = follow(tmp_path)
    assert read_until_pause(batches) == []
    write(tmp_path / "a", PACKETS)
    assert read_until_pause(batches) == PACKETS


def test_a_file_that_its_writer_left_incomplete_is_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "a", PACKETS[:3])
    (tmp_path / "a").write_bytes((tmp_path / "a").read_bytes()[:-1])
    write(tmp_path / "b", PACKETS[3:])
    assert read_until_pause(follow(tmp_path)) == PACKETS[:2] + PACKETS[3:]
    assert f"{tmp_path}/a ends inside a packet" in capsys.readouterr().err


def test_a_file_that_is_compressed_after_it_was_read_is_not_read_again(tmp_path: Path) -> None:
    write(tmp_path / "a.pcap", PACKETS[:3])
    batches = follow(tmp_path)
    assert read_until_pause(batches) == PACKETS[:3]
    write(tmp_path / "b.pcap", PACKETS[3:])
    (tmp_path / "a.pcap.gz").write_bytes(gzip.compress((tmp_path / "a.pcap").read_bytes()))
    (tmp_path / "a.pcap").unlink()
    assert read_until_pause(batches) == PACKETS[3:]
