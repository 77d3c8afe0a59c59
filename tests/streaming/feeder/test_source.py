"""Sources: files, plain or compressed, standard input, and folders of rotated captures.

Run IDs, truncation and damage; gzip and zstd in one and several members; a folder read in order of time, each
packet once, and followed as it grows.
"""

from __future__ import annotations

import gzip
import io
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
import zstandard

from decoders.tls.key_log import KeyLog
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.pcap import PcapWriter
from decoders.wire.segment import Packet
from streaming.feeder import source
from streaming.feeder.capture_stream import STANDARD_INPUT, CaptureStream, follow_pipe, open_file
from streaming.feeder.source import follow, open_capture, run_of_file
from streaming.user_error import UserError
from tests.decoders.wire.conversation import exchanges
from tests.decoders.wire.conversation import packets_of as packets_exchanged
from tests.decoders.wire.test_pcap import Section
from tests.streaming.captures import conforming, packets_of, write_capture

COUNT = len(packets_of(conforming()))
PACKETS = [Packet(number, 1, bytes([number]) * 20, 20) for number in range(1, 10)]
Compress = Callable[[bytes], bytes]
EXCHANGED = packets_exchanged(exchanges(30))
COMPRESSIONS = pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])


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
    with pytest.raises(UserError, match=message), open_capture(path) as reader:
        seen.extend(reader)
    assert len(seen) == COUNT - 1


def test_damage_inside_a_file_is_a_user_error(path: Path) -> None:
    """The packets before the damage are yielded."""
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
        batches = follow_pipe(STANDARD_INPUT, lambda: False, nothing)
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
            next(follow_pipe(STANDARD_INPUT, lambda: False, nothing))
    with piped() as writing:
        os.write(writing, path.read_bytes()[:-1])
        os.close(writing)
        with pytest.raises(UserError, match="standard input ends inside a packet"):
            list(follow_pipe(STANDARD_INPUT, lambda: False, nothing))


@pytest.mark.parametrize("written", [0, 24, -10], ids=["nothing", "a header", "part of a packet"])
def test_an_idle_pipe_ends_when_the_feeder_stops(path: Path, written: int) -> None:
    stopping = threading.Event()
    with piped() as writing:
        os.write(writing, path.read_bytes()[:written] if written else b"")
        threading.Timer(0.3, stopping.set).start()
        idle: list[None] = []
        list(follow_pipe(STANDARD_INPUT, stopping.is_set, lambda: idle.append(None)))
        assert len(idle) >= 2, "what is due meanwhile is done every 50 ms"
        os.close(writing)


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
    monkeypatch.setattr(source, "POLL_SECONDS", 0)


def test_the_files_of_a_ring_are_read_in_the_order_of_their_packets(tmp_path: Path) -> None:
    """Order of names would be wrong: the ring has returned to the first file."""
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
    with pytest.raises(UserError, match="a file in"), open_capture(tmp_path) as capture:
        seen.extend(capture)
    assert without_position(seen) == PACKETS[:2] + PACKETS[3:]


@pytest.mark.parametrize("content", [None, b"notes about the capture, no capture"])
def test_a_folder_without_captures_is_a_user_error(tmp_path: Path, content: bytes | None) -> None:
    if content:
        (tmp_path / "notes.txt").write_bytes(content)
    with pytest.raises(UserError, match=str(tmp_path)):
        read(tmp_path)


def read_until_pause(batches: Iterator[PacketBatch]) -> list[Packet]:
    """Return the packets until the next pause, without positions."""
    packets: list[Packet] = []
    while (batch := next(batches)).size:
        packets.extend(batch.packets())
    return without_position(packets)


def test_a_followed_folder_yields_old_and_then_new_packets(tmp_path: Path) -> None:
    """It yields a half-written packet once it is complete, the last of a file, and the first of the next."""
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


def test_positions_go_on_behind_a_damaged_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "a", PACKETS[:3])
    (tmp_path / "a").write_bytes((tmp_path / "a").read_bytes() + b"\xff" * 16)
    write(tmp_path / "b", PACKETS[3:])
    batches = follow(tmp_path)
    positions: list[int] = []
    while (batch := next(batches)).size:
        positions += batch.positions.tolist()
    assert len(positions) == len(PACKETS) and positions == sorted(set(positions))
    assert f"{tmp_path}/a: damaged" in capsys.readouterr().err


def test_files_after_a_clock_was_set_back_are_read_in_the_order_in_which_they_appear(tmp_path: Path) -> None:
    write(tmp_path / "a", PACKETS[6:])
    batches = follow(tmp_path)
    assert read_until_pause(batches) == PACKETS[6:]
    write(tmp_path / "b", PACKETS[:2])
    assert read_until_pause(batches) == PACKETS[:2]
    write(tmp_path / "c", PACKETS[2:6])
    assert read_until_pause(batches) == PACKETS[2:6]
    (tmp_path / "a").rename(tmp_path / "d")
    (tmp_path / "b").unlink()
    assert read_until_pause(batches) == []


def test_a_file_that_is_compressed_after_it_was_read_is_not_read_again(tmp_path: Path) -> None:
    write(tmp_path / "a.pcap", PACKETS[:3])
    batches = follow(tmp_path)
    assert read_until_pause(batches) == PACKETS[:3]
    write(tmp_path / "b.pcap", PACKETS[3:])
    (tmp_path / "a.pcap.gz").write_bytes(gzip.compress((tmp_path / "a.pcap").read_bytes()))
    (tmp_path / "a.pcap").unlink()
    assert read_until_pause(batches) == PACKETS[3:]


def test_a_file_that_its_ring_overwrites_is_read_again(tmp_path: Path) -> None:
    write(tmp_path / "0", PACKETS[:2])
    write(tmp_path / "1", PACKETS[2:4])
    batches, inode = follow(tmp_path), (tmp_path / "0").stat().st_ino
    assert read_until_pause(batches) == PACKETS[:4]
    write(tmp_path / "0", PACKETS[4:6])
    assert (tmp_path / "0").stat().st_ino == inode
    assert read_until_pause(batches) == PACKETS[4:6]


def test_a_file_of_a_followed_folder_is_opened_to_be_ordered_and_to_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, packet in enumerate(PACKETS):
        write(tmp_path / str(number), [packet])
    opened: list[Path] = []

    def counted(path: Path, key_log: KeyLog | None = None) -> AbstractContextManager[CaptureStream]:
        opened.append(path)
        return open_file(path, key_log)

    monkeypatch.setattr(source, "open_file", counted)
    batches = follow(tmp_path)
    assert read_until_pause(batches) == PACKETS
    assert read_until_pause(batches) == []
    assert len(opened) == 2 * len(PACKETS)


def test_a_file_that_could_not_be_opened_for_a_while_is_read_once_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path, key_log: KeyLog | None = None) -> AbstractContextManager[CaptureStream]:
        raise UserError(f"cannot read {path}: Too many open files")

    write(tmp_path / "a", PACKETS)
    batches = follow(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(source, "open_file", refused)
        assert read_until_pause(batches) == []
    assert read_until_pause(batches) == PACKETS


def pcap() -> bytes:
    stream = io.BytesIO()
    writer = PcapWriter(stream, 1)
    for packet in EXCHANGED:
        writer.write(packet)
    return stream.getvalue()


def pcapng() -> bytes:
    """The same packets, without the times."""
    section = Section()
    section.interface()
    for packet in EXCHANGED:
        section.enhanced(0, packet.data)
    return section.data


def read_into(path: Path, into: list[Packet]) -> None:
    with open_capture(path) as capture:
        into.extend(packet._replace(position=0) for packet in capture)


@COMPRESSIONS
@pytest.mark.parametrize("members", [1, 3])
def test_a_compressed_capture_is_read_whatever_its_name(
    tmp_path: Path, compress: Compress, members: int
) -> None:
    path, content, packets = tmp_path / "capture", pcap(), list[Packet]()
    size = len(content) // members + 1
    parts = [compress(content[start : start + size]) for start in range(0, len(content), size)]
    path.write_bytes(b"".join(parts))
    read_into(path, packets)
    assert packets == EXCHANGED


@COMPRESSIONS
def test_truncated_compression_is_an_error(tmp_path: Path, compress: Compress) -> None:
    path, packets = tmp_path / "capture", list[Packet]()
    path.write_bytes(compress(pcap()[:-1000]) + compress(pcap()[-1000:])[:-3])
    with pytest.raises(UserError, match="ends inside a packet"):
        read_into(path, packets)
    assert len(packets) >= 30
    assert packets == EXCHANGED[: len(packets)]


@COMPRESSIONS
def test_damaged_compression_is_a_user_error(tmp_path: Path, compress: Compress) -> None:
    path = tmp_path / "capture"
    compressed = bytearray(compress(pcap()))
    compressed[4:12] = b"\xff" * 8
    path.write_bytes(compressed)
    with pytest.raises(UserError, match=f"{path}: damaged compression"):
        read_into(path, [])


@COMPRESSIONS
@pytest.mark.parametrize("written", [pcap, pcapng])
def test_packets_before_damaged_compression_are_read(
    tmp_path: Path, compress: Compress, written: Callable[[], bytes]
) -> None:
    """A file of two members, of which the second is damaged where it begins."""
    path, content, seen = tmp_path / "capture", written(), list[bytes]()
    damaged = bytearray(compress(content[-1000:]))
    damaged[4:12] = b"\xff" * 8
    path.write_bytes(compress(content[:-1000]) + damaged)
    with pytest.raises(UserError, match=f"{path}: damaged compression"), open_capture(path) as capture:
        for batch in capture.batches():
            seen += [batch.packet(number).data for number in range(batch.size)]
    assert len(seen) >= 30
    assert seen == [packet.data for packet in EXCHANGED[: len(seen)]]


def test_a_file_of_a_folder_that_is_no_capture_hides_no_packet(tmp_path: Path) -> None:
    """An error names it at the end. Without it there is no error."""
    write(tmp_path / "a", PACKETS[:3])
    write(tmp_path / "b", PACKETS[3:])
    assert without_position(read(tmp_path)) == PACKETS
    (tmp_path / "notes.txt").write_text("these captures are of Monday's test")
    seen: list[Packet] = []
    with (
        pytest.raises(UserError, match=r"notes\.txt: not a pcap file; all other files were read"),
        open_capture(tmp_path) as capture,
    ):
        seen.extend(capture)
    assert without_position(seen) == PACKETS
