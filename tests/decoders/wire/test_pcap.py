"""pcap files of every byte order and resolution, complete, truncated and damaged."""

from __future__ import annotations

import io
import struct

import pytest

from decoders.wire.packet import Packet
from decoders.wire.pcap import PcapError, PcapReader, PcapWriter


def pcap(order: str, magic: int, ticks: int) -> bytes:
    header = struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 65535, 1)
    record = struct.pack(f"{order}IIII", 5, ticks, 3, 9) + b"abc"
    return header + record + record


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize(("magic", "ticks"), [(0xA1B2C3D4, 250), (0xA1B23C4D, 250_000)])
def test_both_resolutions_and_byte_orders_are_read_to_nanoseconds(order: str, magic: int, ticks: int) -> None:
    reader = PcapReader(io.BytesIO(pcap(order, magic, ticks)))
    at = 5_000_250_000
    assert list(reader) == [Packet(at, 1, b"abc", 9, 24), Packet(at, 1, b"abc", 9, 24 + 19)]
    assert not reader.truncated


@pytest.mark.parametrize("missing", [1, 3, 10, 18])
def test_a_file_that_ends_inside_a_record_yields_the_complete_packets_and_is_truncated(missing: int) -> None:
    reader = PcapReader(io.BytesIO(pcap("<", 0xA1B2C3D4, 0)[:-missing]))
    assert len(list(reader)) == 1
    assert reader.truncated


@pytest.mark.parametrize("content", [b"", b"GET / HTTP/1.1\r\nHost: example\r\n", b"\xd4\xc3\xb2\xa1"])
def test_what_is_not_a_pcap_is_refused(content: bytes) -> None:
    with pytest.raises(PcapError, match="not a pcap file"):
        PcapReader(io.BytesIO(content))


def test_an_absurd_record_length_raises_and_allocates_nothing() -> None:
    content = pcap("<", 0xA1B2C3D4, 0) + struct.pack("<IIII", 0, 0, 0xFFFFFFF0, 0xFFFFFFF0)
    with pytest.raises(PcapError, match="byte 62"):
        list(PcapReader(io.BytesIO(content)))


def test_written_packets_are_read_back() -> None:
    stream = io.BytesIO()
    writer = PcapWriter(stream, 113)
    writer.write(Packet(1_700_000_000_123_456_789, 113, b"cut", 1500))
    writer.write(Packet(1_700_000_001_000_000_000, 113, b"", 0))
    stream.seek(0)
    assert list(PcapReader(stream)) == [
        Packet(1_700_000_000_123_456_789, 113, b"cut", 1500, 24),
        Packet(1_700_000_001_000_000_000, 113, b"", 0, 43),
    ]


def test_a_file_accepts_packets_of_one_link_type() -> None:
    with pytest.raises(ValueError, match="link type 1 in a file of 113"):
        PcapWriter(io.BytesIO(), 113).write(Packet(0, 1, b"", 0))
