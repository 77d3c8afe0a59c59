"""A capture file in batches yields the packets that its reader yields one by one."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.wire.columnar.packets import read_batches
from decoders.wire.pcap import LARGEST_PACKET, PcapError, read_capture
from decoders.wire.segment import Packet
from tests.examples import examples

some = examples(50)
times = st.integers(0, (1 << 32) - 1)
payloads = st.lists(st.binary(max_size=200), max_size=30)


def pcap(payloads: list[bytes], order: str = "<", magic: int = 0xA1B23C4D, second: int = 1) -> bytes:
    header = struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 1 << 18, 1)
    records = (
        struct.pack(f"{order}IIII", second, number, len(data), len(data) + 3) + data
        for number, data in enumerate(payloads)
    )
    return header + b"".join(records)


def batched(file: bytes, chunk: int) -> Iterator[Packet]:
    for batch in read_batches(read_capture(io.BytesIO(file)), chunk=chunk):
        yield from map(batch.packet, range(batch.size))


@given(
    payloads, st.sampled_from("<>"), st.sampled_from([0xA1B2C3D4, 0xA1B23C4D]), times, st.integers(1, 2_000)
)
@some
def test_chunks_of_any_size_yield_the_same_packets(
    payloads: list[bytes], order: str, magic: int, second: int, chunk: int
) -> None:
    file = pcap(payloads, order, magic, second)
    assert list(batched(file, chunk)) == list(read_capture(io.BytesIO(file)))


@given(st.lists(st.binary(max_size=90), min_size=1, max_size=10), st.integers(1, 60), st.integers(1, 500))
@some
def test_a_file_that_ends_inside_a_packet_yields_the_complete_packets(
    payloads: list[bytes], cut: int, chunk: int
) -> None:
    file = pcap(payloads)
    file = file[: max(24, len(file) - cut)]
    one_by_one, capture = read_capture(io.BytesIO(file)), read_capture(io.BytesIO(file))
    expected = list(one_by_one)
    packets = [batch.packet(row) for batch in read_batches(capture, chunk=chunk) for row in range(batch.size)]
    assert packets == expected
    assert (capture.truncated, capture.position) == (one_by_one.truncated, one_by_one.position)


def test_reading_continues_when_a_file_has_grown() -> None:
    file = pcap([b"one", b"two", b"three"])
    stream = io.BytesIO(file[:-4])
    capture = read_capture(stream)
    assert [batch.size for batch in read_batches(capture)] == [2]
    stream.seek(0, io.SEEK_END)
    stream.write(file[-4:])
    stream.seek(capture.position)
    (batch,) = read_batches(capture)
    assert batch.packet(0).data == b"three"
    assert not capture.truncated


@pytest.mark.parametrize("chunk", [1, 100, 10_000])
def test_a_damaged_packet_raises_after_the_complete_ones(chunk: int) -> None:
    file = pcap([b"whole", b"too"]) + struct.pack("<IIII", 0, 0, LARGEST_PACKET + 1, 0)
    packets: list[Packet] = []
    with pytest.raises(
        PcapError, match=f"the packet at byte {len(file) - 16} claims {LARGEST_PACKET + 1} bytes"
    ):
        packets += batched(file, chunk)
    complete = batched(file, chunk)
    assert [next(complete).data, next(complete).data] == [b"whole", b"too"]


def test_a_pcapng_file_is_read_packet_by_packet() -> None:
    blocks = [struct.pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28)]
    blocks.append(struct.pack("<IIHHII", 1, 20, 1, 0, 0, 20))
    blocks += [struct.pack("<IIIIIII4sI", 6, 36, 0, 0, number, 4, 4, b"data", 36) for number in range(5)]
    file = b"".join(blocks)
    packets = list(batched(file, 100))
    assert len(packets) == 5
    assert packets == list(read_capture(io.BytesIO(file)))
