"""Removes the connections of excluded addresses from the capture, and counts their bytes.

The packet filter of the kernel has cut most of their packets behind the headers, which are enough for
counting. Packets of capture files, and of networks that do not fit into the filter, come here uncut.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import ip_address

import numpy as np
from numpy.typing import NDArray

from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.columnar.segments import SegmentBatch, read_segments
from decoders.wire.ledger import Ledger, SkipReason
from decoders.wire.segment import Segment, read_segment
from streaming.feeder.packet_filter import Network

_WORD = 8


class ExcludedTraffic:
    """Removes the packets from and to some networks."""

    def __init__(self, networks: Sequence[Network]) -> None:
        self._networks = networks

    def without_excluded(self, packets: PacketBatch, ledger: Ledger) -> PacketBatch:
        """Return the packets of other addresses; those excluded are counted as skipped in the ledger."""
        if not self._networks or not packets.size:
            return packets
        segments = read_segments(packets)
        excluded = self._are_excluded(segments)
        sizes = segments.ends - segments.starts + segments.missing
        skipped = int(sizes[excluded].sum())
        for row in np.flatnonzero(~segments.parsed).tolist():
            segment = read_segment(packets.packet(row))
            if isinstance(segment, Segment) and self._is_excluded(segment):
                excluded[row] = True
                skipped += len(segment.payload) + segment.missing
        count = int(excluded.sum())
        if not count:
            return packets
        ledger.packets["excluded"] += count
        ledger.capture(skipped)
        ledger.skip(SkipReason.EXCLUDED, skipped)
        return packets.chosen(np.flatnonzero(~excluded))

    def _are_excluded(self, segments: SegmentBatch) -> NDArray[np.bool_]:
        """Return which parsed segments have an excluded address at either end."""
        excluded = np.zeros(len(segments.parsed), np.bool_)
        for network in self._networks:
            high, low = _words(network.network_address.packed)
            high_mask, low_mask = _words(network.netmask.packed)
            if network.version == 4:
                high_mask = 0
            for column in (0, 2):
                addresses = segments.sockets[:, column : column + 2]
                is_in = ((addresses[:, 0] & high_mask) == high) & ((addresses[:, 1] & low_mask) == low)
                excluded |= is_in & (segments.sockets[:, -1] >> 32 == network.version)
        return excluded & segments.parsed

    def _is_excluded(self, segment: Segment) -> bool:
        ends: Iterable[bytes] = (segment.source.address, segment.destination.address)
        return any(ip_address(end) in network for end in ends for network in self._networks)


def _words(address: bytes) -> tuple[int, int]:
    """Return the two words of an address as segments have them: signed, the first one 0 for IPv4."""
    padded = address.rjust(2 * _WORD, b"\0")
    return int.from_bytes(padded[:_WORD], signed=True), int.from_bytes(padded[_WORD:], signed=True)
