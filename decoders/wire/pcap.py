"""Classic pcap files, reading and writing.

Format: https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcap/ (microsecond magic 0xA1B2C3D4,
nanosecond magic 0xA1B23C4D, in the byte order of the machine that wrote the file).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO

from decoders.wire.packet import Packet

_NANOSECONDS_PER_TICK = {0xA1B2C3D4: 1_000, 0xA1B23C4D: 1}
_PCAPNG_MAGIC = b"\x0a\x0d\x0d\x0a"
_FILE_HEADER_SIZE = 24
_RECORD_HEADER_SIZE = 16
_LARGEST_PACKET = 16 * 1024 * 1024
"""No link carries larger packets: beyond it the record header itself is damaged."""


class PcapError(ValueError):
    """Not a classic pcap file, or one that is damaged in the middle."""


class PcapReader:
    """The packets of a pcap file, read from a binary stream that need not be seekable.

    A file that ends inside a record, as one does whose writer was killed, gives every whole packet;
    after the iteration `truncated` tells that it was so. Raises PcapError at once when the stream is
    no classic pcap file, and during the iteration when a record's length is absurd.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        header = stream.read(_FILE_HEADER_SIZE)
        order = _byte_order(header)
        magic, _major, _minor, _zone, _accuracy, _snap_length, link = struct.unpack(f"{order}IHHiIII", header)
        self._record_header = struct.Struct(f"{order}IIII")
        self._nanoseconds_per_tick = _NANOSECONDS_PER_TICK[magic]
        # The upper bits of the link field may tell the length of a frame check sequence.
        self.link_type = link & 0xFFFF
        self.truncated = False

    def __iter__(self) -> Iterator[Packet]:
        position = _FILE_HEADER_SIZE
        while header := self._stream.read(_RECORD_HEADER_SIZE):
            if len(header) < _RECORD_HEADER_SIZE:
                self.truncated = True
                return
            seconds, ticks, captured, original = self._record_header.unpack(header)
            if captured > _LARGEST_PACKET:
                raise PcapError(f"damaged pcap file: the packet at byte {position} claims {captured} bytes")
            data = self._stream.read(captured)
            if len(data) < captured:
                self.truncated = True
                return
            captured_at = seconds * 1_000_000_000 + ticks * self._nanoseconds_per_tick
            yield Packet(captured_at, self.link_type, data, original, position)
            position += _RECORD_HEADER_SIZE + captured


def _byte_order(header: bytes) -> str:
    if header.startswith(_PCAPNG_MAGIC):
        raise PcapError("a pcapng file; convert it with: editcap -F pcap IN OUT")
    if len(header) == _FILE_HEADER_SIZE:
        for order in "<>":
            if struct.unpack_from(f"{order}I", header)[0] in _NANOSECONDS_PER_TICK:
                return order
    raise PcapError("not a pcap file")


class PcapWriter:
    """Writes packets of one link type as a little-endian pcap file with nanoseconds."""

    def __init__(self, stream: BinaryIO, link_type: int) -> None:
        self._stream = stream
        self._link_type = link_type
        stream.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, link_type))

    def write(self, packet: Packet) -> None:
        """Append one packet. Raises ValueError when it is of another link type than the file."""
        if packet.link_type != self._link_type:
            raise ValueError(f"a packet of link type {packet.link_type} in a file of {self._link_type}")
        seconds, nanoseconds = divmod(packet.captured_at, 1_000_000_000)
        self._stream.write(
            struct.pack("<IIII", seconds, nanoseconds, len(packet.data), packet.original_length)
        )
        self._stream.write(packet.data)
