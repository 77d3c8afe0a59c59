"""Opens a capture file: pcap or pcapng, recognised by its first bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Protocol

from decoders.tls.key_log import KeyLog
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


def read_capture(stream: BinaryIO, head: bytes = b"", key_log: KeyLog | None = None) -> CaptureReader:
    """Read a pcap or pcapng file; `head` are bytes already read. Raises PcapError if it is neither.

    Secrets of TLS that a pcapng file holds are added to `key_log`.
    """
    head += stream.read(len(PCAPNG_MAGIC) - len(head))
    if not head:
        raise PcapError("empty: it holds not a single byte")
    return PcapngReader(stream, head, key_log) if head == PCAPNG_MAGIC else PcapReader(stream, head)
