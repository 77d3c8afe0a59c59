"""Reads and writes classic pcap files.

Format: https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcap/ (microsecond magic 0xA1B2C3D4,
nanosecond magic 0xA1B23C4D, in the byte order of the machine that wrote the file).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO

from decoders.wire.packet import Packet

_NANOSECONDS_PER_TICK = {0xA1B2C3D4: 1_000, 0xA1B23C4D: 1}
_FILE_HEADER_SIZE = 24
RECORD_HEADER_SIZE = 16
LARGEST_PACKET = 16 * 1024 * 1024
"""Bytes. No link carries larger packets, so a record header with a larger length is damaged."""


class PcapError(ValueError):
    """The file is no capture file, or is damaged in the middle."""


class PcapReader:
    """The packets of a pcap file, read from a binary stream that need not be seekable.

    If the file ends inside a record, as it does when its writer was killed, every complete packet is yielded
    and `truncated` is true afterwards. Another iteration over a seekable stream continues behind the last
    complete packet, for files that still grow; `position` is the byte offset there. `head` are bytes already
    read from the stream. The constructor raises PcapError if the stream is no classic pcap file, the
    iteration if a record is longer than LARGEST_PACKET.
    """

    def __init__(self, stream: BinaryIO, head: bytes = b"") -> None:
        self.stream = stream
        header = head + stream.read(_FILE_HEADER_SIZE - len(head))
        order = _byte_order(header)
        magic, _major, _minor, _zone, _accuracy, _snap_length, link = struct.unpack(f"{order}IHHiIII", header)
        self.is_big_endian = order == ">"
        self._record_header = struct.Struct(f"{order}IIII")
        self.nanoseconds_per_tick = _NANOSECONDS_PER_TICK[magic]
        # The upper bits of the link field may hold the length of a frame check sequence.
        self.link_type = link & 0xFFFF
        self.truncated = False
        self.position = _FILE_HEADER_SIZE

    def __iter__(self) -> Iterator[Packet]:
        self.truncated = False
        while header := self.stream.read(RECORD_HEADER_SIZE):
            if len(header) < RECORD_HEADER_SIZE:
                self.mark_truncated()
                return
            seconds, ticks, captured, original = self._record_header.unpack(header)
            if captured > LARGEST_PACKET:
                raise PcapError(f"damaged: the packet at byte {self.position} claims {captured} bytes")
            data = self.stream.read(captured)
            if len(data) < captured:
                self.mark_truncated()
                return
            position = self.position
            self.position += RECORD_HEADER_SIZE + captured
            captured_at = seconds * 1_000_000_000 + ticks * self.nanoseconds_per_tick
            yield Packet(captured_at, self.link_type, data, original, position)

    def mark_truncated(self) -> None:
        """Set `truncated`, and seek to the beginning of the incomplete record if the stream is seekable."""
        self.truncated = True
        if self.stream.seekable():
            self.stream.seek(self.position)


def _byte_order(header: bytes) -> str:
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
        """Append one packet. Raises ValueError if its link type is not the file's."""
        if packet.link_type != self._link_type:
            raise ValueError(f"a packet of link type {packet.link_type} in a file of {self._link_type}")
        seconds, nanoseconds = divmod(packet.captured_at, 1_000_000_000)
        self._stream.write(
            struct.pack("<IIII", seconds, nanoseconds, len(packet.data), packet.original_length)
        )
        self._stream.write(packet.data)
