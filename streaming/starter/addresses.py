"""The addresses of this host: which of its interfaces have one, and how other hosts see it."""

from __future__ import annotations

import fcntl
import socket
import struct
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

_SIOCGIFADDR: Final = 0x8915
"""Of linux/sockios.h: the IPv4 address of an interface."""
_IPV6_ADDRESSES: Final = Path("/proc/net/if_inet6")
LOOPBACK: Final = "lo"


def resolved(host: str, port: int) -> str | None:
    """Return the address that a name stands for, as packets have it; None if it is unknown here."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return None
    return str(found[0][4][0])


def interfaces_with(addresses: Collection[str]) -> list[str]:
    """Return the interfaces of this host that have one of the addresses, and `lo` if there are any.

    A client on this host reaches each of its addresses by `lo`.
    """
    found = sorted({name for name, address in _own() if address in addresses} - {LOOPBACK})
    is_here = found or any(address.startswith("127.") or address == "::1" for address in addresses)
    return [*found, LOOPBACK] if is_here else []


def address_towards(host: str, port: int) -> str | None:
    """Return the address of this host from which a connection to another one comes. Sends nothing."""
    try:
        family, kind, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    except OSError:
        return None


def _own() -> Iterator[tuple[str, str]]:
    """Yield the interfaces of this host, each with an address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("256s", name.encode()))
            except OSError:
                continue
            yield name, socket.inet_ntoa(answer[20:24])
    if _IPV6_ADDRESSES.exists():
        for line in _IPV6_ADDRESSES.read_text().splitlines():
            packed, *_, name = line.split()
            yield name, socket.inet_ntop(socket.AF_INET6, bytes.fromhex(packed))
