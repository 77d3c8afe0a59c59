"""Capture files: pcap and pcapng are read, pcap is written.

Formats: https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcap/ (microsecond magic 0xA1B2C3D4, nanosecond
magic 0xA1B23C4D, in the byte order of the machine that wrote the file) and
https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcapng/.

Of pcapng the reader handles section headers (each may have another byte order), interface descriptions with
the resolution and offset of their clock, and enhanced, simple and obsolete packet blocks. A decryption
secrets block with a TLS key log is added to the given key log. All other blocks are skipped: name resolution,
statistics, and those of later versions.
"""

from __future__ import annotations

import enum
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from decoders.frame.record import NO_TIME
from decoders.tls.key_log import KeyLog
from decoders.wire.segment import Packet

_NANOSECONDS_PER_TICK = {0xA1B2C3D4: 1_000, 0xA1B23C4D: 1}
_FILE_HEADER_SIZE = 24
RECORD_HEADER_SIZE = 16
LARGEST_PACKET = 16 * 1024 * 1024
"""Bytes. No link carries larger packets, so a record header with a larger length is damaged."""
PCAPNG_MAGIC = b"\x0a\x0d\x0d\x0a"
"""The type of a section header block, which is the same in both byte orders."""
_BYTE_ORDERS = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
_BLOCK_HEADER_SIZE, _TRAILER_SIZE = 8, 4
_SHORTEST_BLOCK = _BLOCK_HEADER_SIZE + _TRAILER_SIZE
_LONGEST_BLOCK = LARGEST_PACKET + 1024 * 1024
MOST_INTERFACES = 65_536
"""Interfaces of a section. Each takes memory until the section ends; on a pipe that may be never."""
_END_OF_OPTIONS, _TIME_RESOLUTION, _TIME_OFFSET = 0, 9, 14
_NANOSECONDS = 1_000_000_000
_TLS_KEY_LOG = 0x544C534B
"""The type of secrets that are a key log of TLS."""


class PcapError(ValueError):
    """The file is not a capture file, or is damaged in the middle."""


class CaptureReader(ABC):
    """The packets of a capture file, read from a binary stream that need not be seekable.

    If the file ends inside a record or block, as it does when its writer was killed, every complete packet is
    yielded and `truncated` is true afterwards. Another iteration over a seekable stream continues behind the
    last complete packet, for files that still grow; `position` is the byte offset there.
    """

    def __init__(self, stream: BinaryIO, position: int) -> None:
        self.stream = stream
        self.position = position
        self.truncated = False

    @abstractmethod
    def __iter__(self) -> Iterator[Packet]:
        """Yield the packets in their order. Raises PcapError where the file is damaged."""

    def mark_truncated(self) -> None:
        """Set `truncated`, and seek to the beginning of the incomplete record if the stream is seekable."""
        self.truncated = True
        if self.stream.seekable():
            self.stream.seek(self.position)


class PcapReader(CaptureReader):
    """The packets of a pcap file. `head` are bytes already read from the stream.

    The constructor raises PcapError if the stream is not a classic pcap file, the iteration if a record is
    longer than LARGEST_PACKET.
    """

    def __init__(self, stream: BinaryIO, head: bytes = b"") -> None:
        super().__init__(stream, _FILE_HEADER_SIZE)
        header = head + stream.read(_FILE_HEADER_SIZE - len(head))
        order = _byte_order(header)
        magic, _major, _minor, _zone, _accuracy, _snap_length, link = struct.unpack(f"{order}IHHiIII", header)
        self.is_big_endian = order == ">"
        self._record_header = struct.Struct(f"{order}IIII")
        self.nanoseconds_per_tick = _NANOSECONDS_PER_TICK[magic]
        # The upper bits of the link field may hold the length of a frame check sequence.
        self.link_type = link & 0xFFFF

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
            captured_at = seconds * _NANOSECONDS + ticks * self.nanoseconds_per_tick
            yield Packet(captured_at, self.link_type, data, original, position)


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
        seconds, nanoseconds = divmod(packet.captured_at, _NANOSECONDS)
        self._stream.write(
            struct.pack("<IIII", seconds, nanoseconds, len(packet.data), packet.original_length)
        )
        self._stream.write(packet.data)


class _BlockType(enum.IntEnum):
    """The block types that are handled."""

    INTERFACE = 1
    OBSOLETE_PACKET = 2
    SIMPLE_PACKET = 3
    ENHANCED_PACKET = 6
    DECRYPTION_SECRETS = 10
    SECTION_HEADER = 0x0A0D0D0A


class _Interface(NamedTuple):
    """An interface description. Its clock counts `ticks_per_second` from `offset` seconds after the epoch."""

    link_type: int
    snap_length: int
    ticks_per_second: int
    offset: int

    def nanoseconds(self, ticks: int) -> int:
        return ticks * _NANOSECONDS // self.ticks_per_second + self.offset * _NANOSECONDS


class PcapngReader(CaptureReader):
    """The packets of a pcapng file. `head` are bytes already read from the stream.

    A packet of a simple packet block has no time and gets that of the packet before it. Secrets are added to
    `key_log` before the packets behind them are yielded. The constructor raises PcapError if the stream is no
    pcapng file, the iteration if a block contradicts itself.
    """

    def __init__(self, stream: BinaryIO, head: bytes = b"", key_log: KeyLog | None = None) -> None:
        super().__init__(stream, 0)
        self._key_log = key_log
        self._head = head + stream.read(len(PCAPNG_MAGIC) - len(head))
        if self._head != PCAPNG_MAGIC:
            raise PcapError("not a pcapng file")
        self._order = "<"
        self._interfaces: list[_Interface] = []
        self._latest = 0

    def __iter__(self) -> Iterator[Packet]:
        self.truncated = False
        while (block := self._block()) is not None:
            position = self.position
            self.position += _SHORTEST_BLOCK + len(block[1])
            try:
                packet = self._packet(*block, position)
            except (struct.error, IndexError) as error:
                raise PcapError(f"damaged: the block at byte {position} is incomplete") from error
            if packet is not None:
                self._latest = packet.captured_at
                yield packet

    def _block(self) -> tuple[int, bytes] | None:
        """Return the type and body of the next block, None at the end of the stream."""
        header = self._read(_BLOCK_HEADER_SIZE)
        if not header:
            return None
        body = b""
        if header.startswith(PCAPNG_MAGIC):
            body = self._read(4)
            self._begin_section(header + body)
        if len(header) < _BLOCK_HEADER_SIZE:
            self.mark_truncated()
            return None
        kind, length = struct.unpack(f"{self._order}II", header)
        if length % 4 or not _SHORTEST_BLOCK + len(body) <= length <= _LONGEST_BLOCK:
            raise PcapError(f"damaged: the block at byte {self.position} claims {length} bytes")
        rest = self._read(length - _BLOCK_HEADER_SIZE - len(body))
        if len(header) + len(body) + len(rest) < length:
            self.mark_truncated()
            return None
        if rest[-_TRAILER_SIZE:] != header[4:]:
            raise PcapError(f"damaged: the block at byte {self.position} ends with another length")
        return kind, body + rest[:-_TRAILER_SIZE]

    def _read(self, size: int) -> bytes:
        head, self._head = self._head, b""
        return head + self.stream.read(size - len(head))

    def _begin_section(self, start: bytes) -> None:
        """Set the byte order from the first 12 bytes of a section header; fewer, if the file ends there."""
        if len(start) == _BLOCK_HEADER_SIZE + 4:
            if start[-4:] not in _BYTE_ORDERS:
                raise PcapError("damaged: a section of no known byte order")
            self._order = _BYTE_ORDERS[start[-4:]]

    def _packet(self, kind: int, body: bytes, position: int) -> Packet | None:
        """Return the packet of a block; None for another kind of block."""
        match kind:
            case _BlockType.SECTION_HEADER:
                self._interfaces = []
            case _BlockType.INTERFACE:
                if len(self._interfaces) >= MOST_INTERFACES:
                    raise PcapError(f"damaged: a section has more than {MOST_INTERFACES} interfaces")
                self._interfaces.append(_interface(self._order, body))
            case _BlockType.ENHANCED_PACKET:
                return self._timed(body, "5I", position)
            case _BlockType.OBSOLETE_PACKET:
                return self._timed(body, "Hxx4I", position)
            case _BlockType.SIMPLE_PACKET:
                return self._simple(body, position)
            case _BlockType.DECRYPTION_SECRETS:
                self._add_secrets(body, position)
        return None

    def _add_secrets(self, body: bytes, position: int) -> None:
        kind, length = struct.unpack_from(f"{self._order}II", body)
        if self._key_log is not None and kind == _TLS_KEY_LOG:
            block = f"block at byte {position}"
            self._key_log.add(body[8 : 8 + length], block)
            self._key_log.end(block)

    def _timed(self, body: bytes, layout: str, position: int) -> Packet:
        number, high, low, captured, original = struct.unpack_from(f"{self._order}{layout}", body)
        interface = self._interfaces[number]
        captured_at = interface.nanoseconds(high << 32 | low)
        # The file chooses the resolution and the offset of its clock, up to 10 ** 127 years.
        if not 0 <= captured_at < NO_TIME:
            raise PcapError(f"damaged: the packet at byte {position} has a time that no clock shows")
        data = _exactly(body[20:], captured)
        return Packet(captured_at, interface.link_type, data, original, position)

    def _simple(self, body: bytes, position: int) -> Packet:
        interface = self._interfaces[0]
        (original,) = struct.unpack_from(f"{self._order}I", body)
        data = _exactly(body[4:], min(original, interface.snap_length or original))
        return Packet(self._latest, interface.link_type, data, original, position)


def _exactly(data: bytes, size: int) -> bytes:
    """Return the first `size` bytes. Raises IndexError if there are fewer."""
    if len(data) < size:
        raise IndexError
    return data[:size]


def _interface(order: str, body: bytes) -> _Interface:
    link_type, snap_length = struct.unpack_from(f"{order}HxxI", body)
    options = dict(_options(order, body[8:]))
    resolution = options.get(_TIME_RESOLUTION, b"\x06")[0]
    (offset,) = struct.unpack(f"{order}q", options.get(_TIME_OFFSET, bytes(8)))
    base = 2 if resolution & 0x80 else 10
    return _Interface(link_type, snap_length, base ** (resolution & 0x7F), offset)


def _options(order: str, data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield code and value of each option; values are padded to four bytes."""
    at = 0
    while at + 4 <= len(data):
        code, length = struct.unpack_from(f"{order}HH", data, at)
        if code == _END_OF_OPTIONS:
            return
        yield code, data[at + 4 : at + 4 + length]
        at += 4 + length + -length % 4


def read_capture(stream: BinaryIO, head: bytes = b"", key_log: KeyLog | None = None) -> CaptureReader:
    """Return the reader for a file by its first bytes. Raises PcapError if it is neither pcap nor pcapng.

    `head` are bytes already read. TLS secrets in a pcapng file are added to `key_log`.
    """
    head += stream.read(len(PCAPNG_MAGIC) - len(head))
    if not head:
        raise PcapError("empty: it holds not a single byte")
    return PcapngReader(stream, head, key_log) if head == PCAPNG_MAGIC else PcapReader(stream, head)
