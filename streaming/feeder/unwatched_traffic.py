"""Removes packets of the feeder's own connections, and of excluded addresses, from a capture.

The feeder's own connections would feed back: publishing a record would cause packets, and so further records.
Three sources identify them. First, the sockets of this process are listed for each batch of packets, after
its capture, so that a socket that has sent a packet is known if it still exists. Second, librdkafka closes
its bootstrap connection as soon as it knows the brokers, so a thread lists the sockets every 5 ms. Third, on
a busy machine the thread may be late. Then the first request identifies the connection: it is ApiVersions,
which carries the version of the client software (KIP-511), and the feeder's version contains a random mark.
Anybody who can read these requests can repeat the mark, so it counts only in requests from an address of this
machine. Connections that have ended are remembered for a minute, since their packets may not have been read
yet.

Packets of excluded addresses are counted. The kernel's packet filter has already cut most of them behind
their headers, which suffice for counting. Packets of capture files, and of networks that do not fit into the
filter, arrive whole.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import socket
import stat
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from importlib.metadata import version
from itertools import permutations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from decoders.protocol import API_VERSIONS
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.columnar.segments import SegmentBatch, halves, read_others, read_segments
from decoders.wire.ledger import Ledger, SkipReason
from decoders.wire.segment import Packet, Segment, SocketAddress, read_segment
from streaming.feeder.packet_filter import Network
from streaming.settings.kafka_client import Setting

_SOFTWARE = "kipwatch-feeder"
_MARK_BYTES = 12
"""Random bytes of a mark: too many to occur by chance, or to be guessed by a client that wants to hide."""
_API_KEY = slice(4, 6)
"""Its place in a request, the size of the frame included."""
INTERVAL = 0.005
"""Seconds between two listings of the sockets. On loopback a bootstrap connection lives for milliseconds."""
REMEMBERED = 60.0
"""Seconds for which Linux keeps the addresses of a closed connection in TIME_WAIT."""
_PORT = 0xFFFF

Ends = frozenset[SocketAddress]
"""The two ends of a connection; while it is being established, only our end."""


class OwnMark:
    """A random mark in the requests of this process. Encrypted connections do not show it."""

    def __init__(self) -> None:
        self._mark = secrets.token_hex(_MARK_BYTES)
        self._pattern = re.compile(self._mark.encode())

    @property
    def settings(self) -> dict[str, Setting]:
        """Settings of librdkafka that put the mark into a client's requests."""
        return {
            "client.software.name": _SOFTWARE,
            "client.software.version": f"{version('kipwatch')}-{self._mark}",
        }

    def connections(self, packets: PacketBatch) -> Iterator[frozenset[SocketAddress]]:
        """Yield the ends of each connection whose first request, with the mark, is among these packets."""
        # One search through all bytes costs less than a look at each packet.
        for found in self._pattern.finditer(packets.data.data[: packets.used]):
            row = int(np.searchsorted(packets.starts, found.start(), "right")) - 1
            segment = read_segment(packets.packet(row)) if row >= 0 else None
            is_first = isinstance(segment, Segment) and self._begins(segment.payload)
            if isinstance(segment, Segment) and is_first and _is_local(segment.source.address):
                yield frozenset((segment.source, segment.destination))

    def _begins(self, payload: bytes) -> bool:
        is_api_versions = int.from_bytes(payload[_API_KEY]) == API_VERSIONS
        return is_api_versions and self._pattern.search(payload) is not None


class OwnTraffic:
    """Removes the packets of this process's own connections to the watched ports. A context manager.

    The Kafka clients of this process must be made with the settings of its `mark`.
    """

    def __init__(self, ports: Collection[int]) -> None:
        """Remove connections to `ports`, to any port if there are none."""
        self.mark = OwnMark()
        self._ports = frozenset(ports)
        self._seen_at: dict[Ends, float] = {}
        self._connecting: set[SocketAddress] = set()
        self._suspects = _Suspects([], ())
        self._sockets = _Sockets()
        self._refreshing, self._ended = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._keep_refreshing, name="own-traffic", daemon=True)

    def __enter__(self) -> OwnTraffic:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def without_own(self, packets: PacketBatch, ledger: Ledger) -> PacketBatch:
        """Return the packets of other processes. Counts our own as skipped in the ledger."""
        self._refresh(self.mark.connections(packets))
        # A comparison of ports leaves few packets to be parsed one by one.
        rows = self._suspects.among(packets)
        own = [row for row in rows if self._is_own(packets.packet(row), ledger)]
        return packets.chosen(np.delete(np.arange(packets.size), own)) if own else packets

    def _is_own(self, packet: Packet, ledger: Ledger) -> bool:
        segment = read_segment(packet)
        if not isinstance(segment, Segment):
            return False
        ends = frozenset((segment.source, segment.destination))
        if ends not in self._seen_at and not ends & self._connecting:
            return False
        ledger.packets["own"] += 1
        ledger.capture(len(segment.payload))
        ledger.skip(SkipReason.OWN, len(segment.payload))
        return True

    def _keep_refreshing(self) -> None:
        while not self._ended.wait(INTERVAL):
            self._refresh()

    def _refresh(self, marked: Iterable[Ends] = ()) -> None:
        with self._refreshing:
            now, sockets = time.monotonic(), self._sockets.ends()
            known = {ends: at for ends, at in self._seen_at.items() if now - at < REMEMBERED}
            connected = {ends for ends in sockets if len(ends) == 2}
            known |= {ends: now for ends in connected.union(marked) if self._is_watched(ends)}
            connecting = {end for ends in sockets if len(ends) == 1 for end in ends if end.port}
            changed = known.keys() != self._seen_at.keys() or connecting != self._connecting
            self._seen_at, self._connecting = known, connecting
            if changed:
                self._suspects = _Suspects(known, connecting)

    def _is_watched(self, ends: Ends) -> bool:
        return not self._ports or any(end.port in self._ports for end in ends)


class _Sockets:
    """Lists the TCP sockets of this process. Asks a socket again only until both of its ends are known."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], Ends] = {}
        """By descriptor and inode, since a descriptor may be reused for another socket."""

    def ends(self) -> set[Ends]:
        """Return the ends of each connection; only our end if it is not established."""
        known: dict[tuple[str, int], Ends] = {}
        connecting: set[Ends] = set()
        for path in Path("/proc/self/fd").iterdir():
            # A thread of librdkafka may close a descriptor at any time.
            with contextlib.suppress(OSError):
                key = path.name, os.fstat(int(path.name)).st_ino
                ends = self._known.get(key)
                if ends is None:
                    ends = _ends_of(int(path.name))
                if len(ends) == 1:
                    connecting.add(ends)
                else:
                    known[key] = ends
        self._known = known
        return connecting | set(known.values())


def _ends_of(descriptor: int) -> Ends:
    """Return the ends of a TCP connection; empty for any other descriptor."""
    if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
        return frozenset()
    with socket.socket(fileno=os.dup(descriptor)) as own:
        return _ends(own)


def _ends(own: socket.socket) -> Ends:
    is_tcp = own.family in (socket.AF_INET, socket.AF_INET6) and own.type == socket.SOCK_STREAM
    if not is_tcp or own.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        return frozenset()
    ours = SocketAddress.named(own.getsockname())
    try:
        return frozenset((ours, SocketAddress.named(own.getpeername())))
    except OSError:
        return frozenset((ours,))


def _is_local(address: bytes) -> bool:
    """Whether an address is one of this machine: a socket can be bound to no other."""
    family = socket.AF_INET if len(address) == 4 else socket.AF_INET6
    with socket.socket(family) as probe:
        try:
            probe.bind((socket.inet_ntop(family, address), 0))
        except OSError:
            return False
    return True


class _Suspects:
    """The ports of our own connections, as a cheap test of many packets at once."""

    def __init__(self, known: Collection[Ends], connecting: Collection[SocketAddress]) -> None:
        self._pairs = np.array(
            [one.port << 16 | other.port for ends in known for one, other in permutations(ends)], np.int64
        )
        self._ports = np.array([end.port for end in connecting], np.int64)

    def among(self, packets: PacketBatch) -> list[int]:
        """Return the rows of packets whose ports are ours, or that only `read_segment` can parse."""
        if not (packets.size and (len(self._pairs) or len(self._ports))):
            return []
        segments = read_segments(packets)
        is_suspect: NDArray[np.bool_] = ~segments.parsed | self._are_ours(segments)
        return np.flatnonzero(is_suspect).tolist()

    def _are_ours(self, segments: SegmentBatch) -> NDArray[np.bool_]:
        ports = segments.sockets[:, -1] & (_PORT << 16 | _PORT)
        are_ours: NDArray[np.bool_] = np.isin(ports, self._pairs)
        return are_ours | np.isin(ports >> 16, self._ports) | np.isin(ports & _PORT, self._ports)


class ExcludedTraffic:
    """Removes the packets from and to excluded networks."""

    def __init__(self, networks: Sequence[Network]) -> None:
        self._networks = networks

    def without_excluded(self, packets: PacketBatch, ledger: Ledger) -> PacketBatch:
        """Return the packets of other addresses. Counts the excluded ones as skipped in the ledger."""
        if not self._networks or not packets.size:
            return packets
        segments = read_segments(packets)
        read_others(packets, segments)
        excluded = self._are_excluded(segments)
        sizes = segments.ends - segments.starts + segments.missing
        skipped = int(sizes[excluded].sum())
        count = int(excluded.sum())
        if not count:
            return packets
        ledger.packets["excluded"] += count
        ledger.capture(skipped)
        ledger.skip(SkipReason.EXCLUDED, skipped)
        return packets.chosen(np.flatnonzero(~excluded))

    def _are_excluded(self, segments: SegmentBatch) -> NDArray[np.bool_]:
        """Return which packets have a segment with an excluded address at either end."""
        excluded = np.zeros(len(segments.parsed), np.bool_)
        for network in self._networks:
            high, low = halves(network.network_address.packed)
            high_mask, low_mask = halves(network.netmask.packed)
            for column in (0, 2):
                addresses = segments.sockets[:, column : column + 2]
                is_in = ((addresses[:, 0] & high_mask) == high) & ((addresses[:, 1] & low_mask) == low)
                excluded |= is_in & (segments.sockets[:, -1] >> 32 == network.version)
        return excluded & segments.parsed
