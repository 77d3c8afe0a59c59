"""One TCP segment in every link layer, and packets without a segment."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.wire.segment import LinkType, Packet, Segment, Skipped, SocketAddress, TcpFlag, read_segment
from tests.decoders.wire.links import LINKS, carried

PAYLOAD = b"kafka"
TCP = struct.pack(">HHIIBBHHH", 40000, 9092, 7, 9, 6 << 4, 0x18, 0, 0, 0) + bytes(4) + PAYLOAD
V4 = (bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]))
V6 = (bytes(15) + b"\x01", bytes(15) + b"\x02")


def ipv4(
    tcp: bytes = TCP, *, options: bytes = b"", fragment: int = 0x4000, length: int | None = None
) -> bytes:
    size = 20 + len(options)
    total = size + len(tcp) if length is None else length
    header = struct.pack(">BBHHHBBH", 0x40 | size // 4, 0, total, 0, fragment, 64, 6, 0)
    return header + V4[0] + V4[1] + options + tcp


def ipv6(tcp: bytes = TCP, *, extensions: bytes = b"", first: int = 6, length: int | None = None) -> bytes:
    size = len(extensions) + len(tcp) if length is None else length
    return struct.pack(">IHBB", 6 << 28, size, first, 64) + V6[0] + V6[1] + extensions + tcp


def ethernet(ip: bytes, *tags: int) -> bytes:
    ethertype = 0x0800 if ip[0] >> 4 == 4 else 0x86DD
    return (
        bytes(12) + b"".join(struct.pack(">HH", tag, 5) for tag in tags) + struct.pack(">H", ethertype) + ip
    )


def read(data: bytes, link_type: int = LinkType.ETHERNET, original: int | None = None) -> Segment | Skipped:
    return read_segment(Packet(1, link_type, data, len(data) if original is None else original, 99))


def expected(addresses: tuple[bytes, bytes], payload: bytes = PAYLOAD, missing: int = 0) -> Segment:
    source, destination = SocketAddress(addresses[0], 40000), SocketAddress(addresses[1], 9092)
    return Segment(source, destination, 7, 9, TcpFlag.PSH | TcpFlag.ACK, payload, missing, 1, 99)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize(("ip", "addresses"), [(ipv4(), V4), (ipv6(), V6)], ids=["IPv4", "IPv6"])
def test_the_segment_is_found_in_every_link_layer(
    link: str, ip: bytes, addresses: tuple[bytes, bytes]
) -> None:
    packet = Packet(1, LinkType.ETHERNET, ethernet(ip), len(ethernet(ip)), 99)
    assert read_segment(carried(packet, link)) == expected(addresses)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(ethernet(ipv4(options=bytes(8))), id="IPv4 options"),
        pytest.param(ethernet(ipv4()) + bytes(6), id="padded"),
        pytest.param(ethernet(ipv4(length=0)), id="too large for the IP length"),
    ],
)
def test_ipv4_is_read_with_its_options_and_without_padding(data: bytes) -> None:
    assert read(data) == expected(V4)


def test_a_packet_merged_by_the_network_card_keeps_all_its_payload() -> None:
    """Its IP length is 0, because it is larger than the field allows."""
    payload = bytes(range(256)) * 300
    assert read(ethernet(ipv4(TCP[:24] + payload, length=0))) == expected(V4, payload)
    assert read(ethernet(ipv6(TCP[:24] + payload, length=0))) == expected(V6, payload)


@pytest.mark.parametrize(
    "ip",
    [
        pytest.param(ipv6(), id="plain"),
        pytest.param(ipv6(length=0), id="too large for the IP length"),
        pytest.param(ipv6(first=0, extensions=b"\x06\x00" + bytes(6)), id="hop-by-hop"),
        pytest.param(
            ipv6(first=43, extensions=b"\x3c\x00" + bytes(6) + b"\x06\x01" + bytes(14)),
            id="routing, destination options",
        ),
        pytest.param(ipv6(first=51, extensions=b"\x06\x04" + bytes(22)), id="authentication"),
        pytest.param(ipv6(first=44, extensions=b"\x06\0\0\0" + bytes(4)), id="the only fragment"),
    ],
)
def test_ipv6_is_read_with_its_extension_headers(ip: bytes) -> None:
    assert read(ethernet(ip)) == expected(V6)


def test_bytes_that_the_snap_length_cut_off_are_counted() -> None:
    packet = ethernet(ipv4())
    assert read(packet[:-3], original=len(packet)) == expected(V4, b"ka", 3)
    assert read(packet[:-5], original=len(packet)) == expected(V4, b"", 5)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(ethernet(ipv4(fragment=0x2000)), "fragment", id="first fragment"),
        pytest.param(ethernet(ipv4(fragment=0x0010)), "fragment", id="later fragment"),
        pytest.param(
            ethernet(ipv6(first=44, extensions=b"\x06\0\0\x01" + bytes(4))),
            "fragment",
            id="IPv6, first fragment",
        ),
        pytest.param(
            ethernet(ipv6(first=44, extensions=b"\x06\0\0\x08" + bytes(4))),
            "fragment",
            id="IPv6, last fragment",
        ),
        pytest.param(ethernet(ipv6(first=17)), "not-tcp", id="UDP"),
        pytest.param(
            ethernet(ipv6(bytes(2) + (4789).to_bytes(2) + bytes(30), first=17)), "vxlan", id="VXLAN"
        ),
        pytest.param(ethernet(ipv6(first=47)), "gre", id="GRE"),
        pytest.param(ethernet(ipv6(first=4)), "ip-in-ip", id="IPv4 in IPv6"),
        pytest.param(ethernet(ipv6(first=50)), "not-tcp", id="encrypted"),
        pytest.param(bytes(12) + b"\x08\x06" + bytes(28), "not-ip", id="ARP"),
        pytest.param(ethernet(ipv4())[:40], "headers-cut", id="snap length inside the TCP header"),
        pytest.param(b"", "headers-cut", id="empty"),
        pytest.param(ethernet(ipv4(TCP[:12] + b"\x10" + TCP[13:])), "malformed", id="TCP header of 4 bytes"),
        pytest.param(ethernet(ipv4(length=30)), "malformed", id="IP length inside the TCP header"),
    ],
)
def test_a_packet_without_a_complete_segment_is_skipped_with_a_reason(data: bytes, reason: str) -> None:
    assert read(data) == Skipped(reason)


def test_a_family_that_is_not_ip_is_skipped() -> None:
    assert read(struct.pack("<I", 7) + ipv4(), LinkType.NULL) == Skipped("not-ip")


def test_an_unknown_link_layer_is_skipped() -> None:
    assert read(ethernet(ipv4()), 195) == Skipped("link-layer")


@given(st.sampled_from(list(LinkType)), st.binary(max_size=120), st.integers(0, 70_000))
def test_any_bytes_are_a_segment_or_skipped(link_type: int, data: bytes, original: int) -> None:
    assert isinstance(read(data, link_type, original), Segment | Skipped)
