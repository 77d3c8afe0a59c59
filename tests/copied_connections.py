"""One connection's packets, copied for many: each copy has an address and numbers of its own.

Made by numpy, so traffic of a million connections takes seconds. Checksums are not updated.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from decoders.wire.pcap import PcapWriter
from decoders.wire.segment import LinkType, Packet, SocketAddress

CLIENT: Final = SocketAddress(bytes([10, 128, 0, 0]), 40_000)
"""The client of the connection that is copied; the copies' clients have the addresses from here on."""
NUMBER: Final = b"NNNNNNN"
"""Stands for a number in digits, which differs from copy to copy."""
_RECORD: Final = struct.Struct("<IIII")
_SOURCE: Final = _RECORD.size + 14 + 12
"""Where the source address is in a record: behind Ethernet's header, in that of IPv4."""
_MILLISECOND: Final = 1_000_000
_SECOND: Final = 1_000 * _MILLISECOND

Numbers = Callable[[int], NDArray[np.int64]]
"""Returns the number of each copy in the packet that is the n-th with NUMBER, counted from 0."""


def file_header() -> bytes:
    """Return the header of a capture file of copies."""
    header = io.BytesIO()
    PcapWriter(header, LinkType.ETHERNET)
    return header.getvalue()


def copies(
    packets: Sequence[Packet], connections: NDArray[np.int64], begin: int, numbers: Numbers | None = None
) -> bytes:
    """Return the records of copies: a packet of all connections, then the next one a millisecond later.

    `connections` are the copies' numbers, from which their addresses follow. By default NUMBER becomes that
    number. `begin` is in nanoseconds since the epoch.
    """
    records, numbered = list[NDArray[np.uint8]](), 0
    for count, packet in enumerate(packets):
        rows = _rows(packet, connections, begin + count * _MILLISECOND)
        places = list(_places(packet.data))
        if places:
            digits = _digits(connections if numbers is None else numbers(numbered))
            numbered += 1
        for place in places:
            _put(rows, _RECORD.size + place, digits)
        records.append(rows.ravel())
    return np.concatenate(records).tobytes()


def _rows(packet: Packet, connections: NDArray[np.int64], at: int) -> NDArray[np.uint8]:
    """Return the record of a packet for each connection, with the address of its client."""
    record = _RECORD.pack(*divmod(at, _SECOND), len(packet.data), len(packet.data)) + packet.data
    rows = np.tile(np.frombuffer(record, np.uint8), (len(connections), 1))
    is_source = record[_SOURCE : _SOURCE + 4] == CLIENT.address
    addresses = int.from_bytes(CLIENT.address) + connections
    _put(rows, _SOURCE if is_source else _SOURCE + 4, addresses.astype(">u4").view(np.uint8).reshape(-1, 4))
    return rows


def _places(data: bytes) -> Iterator[int]:
    """Yield where NUMBER is."""
    place = data.find(NUMBER)
    while place >= 0:
        yield place
        place = data.find(NUMBER, place + 1)


def _digits(numbers: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Write numbers with as many digits as NUMBER has, one row each."""
    powers = 10 ** np.arange(len(NUMBER))[::-1]
    return (numbers[:, None] // powers % 10 + ord("0")).astype(np.uint8)


def _put(rows: NDArray[np.uint8], at: int, columns: NDArray[np.uint8]) -> None:
    rows[:, at : at + columns.shape[1]] = columns
