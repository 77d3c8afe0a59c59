"""The same IP packet in every supported link layer."""

from __future__ import annotations

import struct
from collections.abc import Callable

from decoders.wire.segment import LinkType, Packet

_ETHERNET_HEADER = 14


def _ethertype(ip: bytes) -> bytes:
    return b"\x86\xdd" if ip[:1] >= b"\x60" else b"\x08\x00"


def _family(order: str) -> Callable[[bytes], bytes]:
    return lambda ip: struct.pack(f"{order}I", 30 if ip[:1] >= b"\x60" else 2) + ip


def _tagged(*tags: int) -> Callable[[bytes], bytes]:
    headers = b"".join(struct.pack(">HH", tag, 5) for tag in tags)
    return lambda ip: bytes(12) + headers + _ethertype(ip) + ip


def _raw(ip: bytes) -> bytes:
    return ip


LINKS: dict[str, tuple[LinkType, Callable[[bytes], bytes]]] = {
    "Ethernet": (LinkType.ETHERNET, _tagged()),
    "802.1Q": (LinkType.ETHERNET, _tagged(0x8100)),
    "802.1ad": (LinkType.ETHERNET, _tagged(0x88A8, 0x8100)),
    "Linux cooked": (LinkType.LINUX_SLL, lambda ip: bytes(14) + _ethertype(ip) + ip),
    "Linux cooked, tagged": (
        LinkType.LINUX_SLL,
        lambda ip: bytes(14) + b"\x81\x00\x00\x05" + _ethertype(ip) + ip,
    ),
    "Linux cooked 2": (LinkType.LINUX_SLL2, lambda ip: _ethertype(ip) + bytes(18) + ip),
    "Linux cooked 2, tagged": (
        LinkType.LINUX_SLL2,
        lambda ip: b"\x81\x00" + bytes(18) + b"\x00\x05" + _ethertype(ip) + ip,
    ),
    "null, little-endian": (LinkType.NULL, _family("<")),
    "null, big-endian": (LinkType.NULL, _family(">")),
    "loop": (LinkType.LOOP, _family(">")),
    "raw": (LinkType.RAW, _raw),
    "raw, BSD number": (LinkType.RAW_BSD, _raw),
    "raw, OpenBSD number": (LinkType.RAW_OPENBSD, _raw),
    "raw IPv4": (LinkType.IPV4, _raw),
    "raw IPv6": (LinkType.IPV6, _raw),
}


def carried(packet: Packet, link: str) -> Packet:
    """Move the payload of an Ethernet packet to another link layer."""
    link_type, wrap = LINKS[link]
    data = wrap(packet.data[_ETHERNET_HEADER:])
    return packet._replace(link_type=link_type, data=data, original_length=len(data))
