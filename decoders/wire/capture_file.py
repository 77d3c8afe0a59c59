"""A capture file of either format, told by its first bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Protocol

from decoders.wire.packet import Packet
from decoders.wire.pcap import PcapReader
from decoders.wire.pcapng import PCAPNG_MAGIC, PcapngReader


class CaptureReader(Protocol):
    """The packets of a capture, as PcapReader gives them."""

    truncated: bool
    position: int

    def __iter__(self) -> Iterator[Packet]:
        """Give the packets in their order."""
        ...


def read_capture(stream: BinaryIO, begun: bytes = b"") -> CaptureReader:
    """Read a pcap or pcapng file of which `begun` was taken already. Raises PcapError where it is neither."""
    begun += stream.read(len(PCAPNG_MAGIC) - len(begun))
    reader = PcapngReader if begun == PCAPNG_MAGIC else PcapReader
    return reader(stream, begun)
