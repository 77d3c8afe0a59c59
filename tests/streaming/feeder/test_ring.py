"""Blocks of the ring in the kernel's layout → packets."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.packet import Packet
from decoders.wire.segment import LinkType, Segment, SocketAddress, read_segment
from decoders.wire.synthesis import SyntheticConnection
from streaming.feeder.ring import copy_packets

CLIENT, SERVER = SocketAddress(bytes(4), 1), SocketAddress(bytes(4), 9092)
HEADER, ALIGNMENT = 48, 16
VLAN_VALID, TPID_VALID = 0x10, 0x40


def block(packets: list[Packet], status: int = 0, tag: int = 0, tag_type: int = 0) -> bytes:
    """A block of packets in the layout of the kernel (tpacket3_hdr)."""
    laid = b""
    for packet in packets:
        size = -(-(HEADER + len(packet.data)) // ALIGNMENT) * ALIGNMENT
        seconds, nanoseconds = divmod(packet.captured_at, 1_000_000_000)
        fields = (size, seconds, nanoseconds, len(packet.data), packet.original_length, status, HEADER, 0)
        header = struct.pack("=IIIIIIHHIIHH", *fields, 0, tag, tag_type, 0).ljust(HEADER, b"\0")
        laid += (header + packet.data).ljust(size, b"\0")
    return bytes(HEADER) + laid


def read(content: bytes, count: int) -> list[Packet]:
    data, columns = np.zeros(2 * len(content), np.uint8), np.empty((4, count), np.int64)
    memory = np.frombuffer(bytearray(content), np.uint8)
    top = copy_packets(memory, HEADER, count, data, 0, columns, 0)
    positions, link_types = np.zeros(count, np.int64), np.full(count, LinkType.ETHERNET)
    starts, lengths, original_lengths, captured_at = columns
    batch = PacketBatch(data, top, starts, lengths, original_lengths, captured_at, positions, link_types)
    return list(batch.packets())


def test_packets_are_read_from_the_kernels_layout() -> None:
    opened = SyntheticConnection(CLIENT, SERVER).opened(1_700_000_000_123_456_789)
    cut = opened[0]._replace(data=opened[0].data[:54], original_length=1500)
    packets = [*opened, cut, cut._replace(data=b"")]
    assert read(block(packets), len(packets)) == packets


@pytest.mark.parametrize(
    ("status", "ethertype"), [(VLAN_VALID, 0x8100), (VLAN_VALID | TPID_VALID, 0x88A8)], ids=["tag", "kind"]
)
def test_a_vlan_tag_that_the_kernel_removed_is_inserted_again(status: int, ethertype: int) -> None:
    packet = SyntheticConnection(CLIENT, SERVER).opened(0)[0]
    (tagged,) = read(block([packet], status, 0xE007, 0x88A8), 1)
    assert tagged.data == packet.data[:12] + struct.pack(">HH", ethertype, 0xE007) + packet.data[12:]
    assert tagged.original_length == packet.original_length + 4
    segment = read_segment(tagged)
    assert isinstance(segment, Segment)
    assert segment.destination == SERVER
