"""A captured packet, from any source: a file, a live interface or a relay."""

from __future__ import annotations

from typing import NamedTuple


class Packet(NamedTuple):
    """One captured packet.

    `captured_at` is in nanoseconds since the epoch. `link_type` is a LINKTYPE_ number of the pcap format.
    `data` holds the captured bytes, `original_length` is the number of bytes on the wire. `position` is the
    byte offset of the packet's record in its file, 0 for a live source.
    """

    captured_at: int
    link_type: int
    data: bytes
    original_length: int
    position: int = 0
