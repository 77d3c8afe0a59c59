"""gzip and zstd captures are read like plain ones: complete, in several members, truncated, damaged."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from decoders.wire.packet import Packet
from decoders.wire.pcap import PcapWriter
from streaming.feeder.source import TruncatedCaptureError, open_capture
from streaming.user_error import UserError
from tests.decoders.wire.conversation import exchanges, packets_of

Compress = Callable[[bytes], bytes]
PACKETS = packets_of(exchanges(30))
COMPRESSIONS = pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])


def pcap() -> bytes:
    stream = io.BytesIO()
    writer = PcapWriter(stream, 1)
    for packet in PACKETS:
        writer.write(packet)
    return stream.getvalue()


def read(path: Path, into: list[Packet]) -> None:
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
    read(path, packets)
    assert packets == PACKETS


@COMPRESSIONS
def test_truncated_compression_is_an_error(tmp_path: Path, compress: Compress) -> None:
    path, packets = tmp_path / "capture", list[Packet]()
    path.write_bytes(compress(pcap()[:-1000]) + compress(pcap()[-1000:])[:-3])
    with pytest.raises(TruncatedCaptureError):
        read(path, packets)
    assert len(packets) >= 30
    assert packets == PACKETS[: len(packets)]


@COMPRESSIONS
def test_damaged_compression_is_a_user_error(tmp_path: Path, compress: Compress) -> None:
    path = tmp_path / "capture"
    compressed = bytearray(compress(pcap()))
    compressed[4:12] = b"\xff" * 8
    path.write_bytes(compressed)
    with pytest.raises(UserError, match=f"{path}: damaged compression"):
        read(path, [])
