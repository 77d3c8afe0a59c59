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
_FILE_HEADER_SIZE = 24
RECORD_HEADER_SIZE = 16
LARGEST_PACKET = 16 * 1024 * 1024
"""No link carries larger packets: beyond it the record header itself is damaged."""


class PcapError(ValueError):
    """Not a capture file, or one that is damaged in the middle."""


class PcapReader:
    """The packets of a pcap file, read from a binary stream that need not be seekable.

    A file that ends inside a record, as one does whose writer was killed, gives every whole packet;
    after the iteration `truncated` tells that it was so. Of a seekable stream another iteration goes on
    behind the last whole packet, for files that still grow; `position` is the byte offset there. `begun`
    are bytes already taken off the stream. Raises PcapError at once when the stream is no classic pcap
    file, and during the iteration when a record's length is absurd.
    """

    def __init__(self, stream: BinaryIO, begun: bytes = b"") -> None:
        self.stream = stream
        header = begun + stream.read(_FILE_HEADER_SIZE - len(begun))
        order = _byte_order(header)
        magic, _major, _minor, _zone, _accuracy, _snap_length, link = struct.unpack(f"{order}IHHiIII", header)
        self.is_big_endian = order == ">"
        self._record_header = struct.Struct(f"{order}IIII")
        self.nanoseconds_per_tick = _NANOSECONDS_PER_TICK[magic]
        # The upper bits of the link field may tell the length of a frame check sequence.
        self.link_type = link & 0xFFFF
        self.truncated = False
        self.position = _FILE_HEADER_SIZE

    def __iter__(self) -> Iterator[Packet]:
        self.truncated = False
        while header := self.stream.read(RECORD_HEADER_SIZE):
            if len(header) < RECORD_HEADER_SIZE:
                self.stop_short()
                return
            seconds, ticks, captured, original = self._record_header.unpack(header)
            if captured > LARGEST_PACKET:
                raise PcapError(f"damaged: the packet at byte {self.position} claims {captured} bytes")
            data = self.stream.read(captured)
            if len(data) < captured:
                self.stop_short()
                return
            position = self.position
            self.position += RECORD_HEADER_SIZE + captured
            captured_at = seconds * 1_000_000_000 + ticks * self.nanoseconds_per_tick
            yield Packet(captured_at, self.link_type, data, original, position)

    def stop_short(self) -> None:
        """Take note that the stream ends inside a record, and go back to where that begins, if possible."""
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
        """Append one packet. Raises ValueError when it is of another link type than the file."""
        if packet.link_type != self._link_type:
            raise ValueError(f"a packet of link type {packet.link_type} in a file of {self._link_type}")
        seconds, nanoseconds = divmod(packet.captured_at, 1_000_000_000)
        self._stream.write(
            struct.pack("<IIII", seconds, nanoseconds, len(packet.data), packet.original_length)
        )
        self._stream.write(packet.data)
