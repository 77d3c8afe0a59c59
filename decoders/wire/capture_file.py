"""Opens a capture file: pcap or pcapng, recognised by its first bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Protocol

from decoders.wire.packet import Packet
from decoders.wire.pcap import PcapError, PcapReader
from decoders.wire.pcapng import PCAPNG_MAGIC, PcapngReader


class CaptureReader(Protocol):
    """The packets of a capture; `truncated` and `position` are those of PcapReader."""

    truncated: bool
    position: int

    def __iter__(self) -> Iterator[Packet]:
        """Yield the packets in their order. Raises PcapError where the file is damaged."""
        ...


def read_capture(stream: BinaryIO, head: bytes = b"") -> CaptureReader:
    """Read a pcap or pcapng file; `head` are bytes already read. Raises PcapError if it is neither."""
    head += stream.read(len(PCAPNG_MAGIC) - len(head))
    if not head:
        raise PcapError("empty: it holds not a single byte")
    reader = PcapngReader if head == PCAPNG_MAGIC else PcapReader
    return reader(stream, head)
