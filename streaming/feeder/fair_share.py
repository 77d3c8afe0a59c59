"""Gives up clients whose packets take the time of all others. Pure: time is an argument.

A packet on the tracker's slow path takes hundreds of times as long as one on the fast path, and anybody who
reaches a port can send it. When tracking has taken most of a second, mostly for such packets, their
largest senders are given up for a minute: the fewest that sent more than half of them. Packets of clients
that are given up are counted and not followed. IPv6 addresses cost nothing, so a network of 64 bits is given
up as a whole if a thousand of its addresses sent such packets.

Only a live capture needs this: a file waits. It needs watched ports, which tell the client's side.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_network
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.columnar.segments import read_others, read_segments
from decoders.wire.ledger import Ledger, SkipReason
from streaming.feeder.packet_filter import Network

GIVEN_UP_FOR: Final = 60.0
"""Seconds."""
MOST: Final = 64
"""Networks that are given up at a time."""
_WINDOW, _OVERLOADED = 1.0, 0.8
"""The seconds of a measurement, and the busy share of them above which tracking is overloaded."""
_DEARER: Final = 300
"""How much longer a packet takes on the slow path than others, at least."""
_FEW: Final = 200
"""Fewer packets on the slow path are never the cause of an overload."""
_LARGE: Final = 10
"""A client is given up only if it sent at least a tenth of the packets on the slow path."""
_MANY_ADDRESSES: Final = 1_000
_PORT: Final = 0xFFFF
_IPV6: Final = 6
_WORD: Final = (1 << 64) - 1

_Integers = NDArray[np.int64]


class _Source(NamedTuple):
    """An address, as a version and two words; a network of IPv6 has all addresses with its upper word."""

    version: int
    upper: int
    lower: int | None

    def sent(self, clients: _Integers) -> NDArray[np.bool_]:
        """Return which packets are its own, given the clients."""
        is_own: NDArray[np.bool_] = (clients[:, 0] == self.version) & (clients[:, 1] == self.upper)
        return is_own if self.lower is None else is_own & (clients[:, 2] == self.lower)

    @property
    def network(self) -> Network:
        """The network of all its addresses."""
        upper = (self.upper & _WORD) << 64
        if self.lower is None:
            return IPv6Network((upper, 64))
        if self.version == _IPV6:
            return ip_network(IPv6Address(upper | self.lower & _WORD))
        return ip_network(IPv4Address(self.lower))


class FairShares:
    """Decides whose packets are followed. `note` must be called for each batch that was tracked."""

    def __init__(self, ports: Collection[int]) -> None:
        self._watched = np.zeros(_PORT + 1, np.bool_)
        self._watched[list(ports)] = True
        self._until: dict[_Source, float] = {}
        self._sockets: list[_Integers] = []
        self._packets, self._begun, self._busy = 0, 0.0, 0.0

    def without_given_up(self, packets: PacketBatch, ledger: Ledger, now: float) -> PacketBatch:
        """Remove the packets of clients that are given up, and count them as skipped in the ledger."""
        self._until = {source: until for source, until in self._until.items() if now < until}
        if not self._until:
            return packets
        segments = read_segments(packets)
        read_others(packets, segments)
        clients, is_clear = self._clients(segments.sockets)
        given_up = np.zeros(packets.size, np.bool_)
        for source in self._until:
            given_up |= source.sent(clients)
        given_up &= is_clear & segments.parsed
        count = int(given_up.sum())
        if not count:
            return packets
        size = int((segments.ends - segments.starts)[given_up].sum())
        ledger.packets["given-up"] += count
        ledger.capture(size)
        ledger.skip(SkipReason.GIVEN_UP, size)
        return packets.chosen(np.flatnonzero(~given_up))

    def note(self, sockets: _Integers, packets: int, seconds: float, now: float) -> Iterator[Network]:
        """Note the packets of a batch, the sockets of those on the slow path, and the seconds it took.

        Yields the networks that are given up from now on.
        """
        self._sockets.append(sockets)
        self._packets += packets
        self._busy += seconds
        elapsed = now - self._begun
        if elapsed < _WINDOW:
            return
        slow, is_overloaded = np.concatenate(self._sockets), self._busy > _OVERLOADED * elapsed
        is_the_cause = len(slow) >= max(_FEW, self._packets / _DEARER)
        self._sockets, self._packets, self._begun, self._busy = [], 0, now, 0.0
        if is_overloaded and is_the_cause:
            for source in self._largest(slow):
                if len(self._until) < MOST:
                    self._until[source] = now + GIVEN_UP_FOR
                    yield source.network

    def _largest(self, sockets: _Integers) -> Iterator[_Source]:
        """Yield the largest senders until the others sent less than half."""
        clients, is_clear = self._clients(sockets)
        left = len(clients)
        for source, count in _by_count(clients[is_clear]):
            if 2 * left < len(clients) or count * _LARGE < len(clients):
                return
            left -= count
            yield source

    def _clients(self, sockets: _Integers) -> tuple[_Integers, NDArray[np.bool_]]:
        """Return the client of each pair of sockets, and whether it is certain which of the two that is."""
        last = sockets[:, -1]
        is_upper_served, is_lower_served = self._watched[last & _PORT], self._watched[last >> 16 & _PORT]
        addresses = np.where(is_upper_served[:, np.newaxis], sockets[:, 0:2], sockets[:, 2:4])
        return np.column_stack((last >> 32, addresses)), is_upper_served != is_lower_served


def _by_count(clients: _Integers) -> list[tuple[_Source, int]]:
    """Return the senders and their numbers of packets, in descending order."""
    addresses, counts = np.unique(clients, axis=0, return_counts=True)
    found = list[tuple[_Source, int]]()
    networks, members = np.unique(addresses[:, :2], axis=0, return_inverse=True)
    sizes, sums = np.bincount(members), np.bincount(members, counts)
    is_whole = (networks[:, 0] == _IPV6) & (sizes >= _MANY_ADDRESSES)
    for network in np.flatnonzero(is_whole).tolist():
        version, upper = networks[network].tolist()
        found.append((_Source(version, upper, None), int(sums[network])))
    alone = ~is_whole[members]
    for address, count in zip(addresses[alone].tolist(), counts[alone].tolist(), strict=True):
        found.append((_Source(*address), count))
    return sorted(found, key=lambda each: -each[1])
