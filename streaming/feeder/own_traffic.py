"""The feeder's own connections, which it must not publish: each record would make the next.

The sockets of this process are asked for their addresses, so nothing has to be searched that belongs to
others. That is done again for each batch of packets, after the batch was captured: what has sent a packet
is known by then, if it is still there. Some is not, since librdkafka leaves a bootstrap broker as soon as
it has told of the others; so a thread asks all the time. A connection that has ended is remembered for a
while, for packets that wait.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import stat
import threading
import time
from collections.abc import Collection
from itertools import permutations
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.columnar.segments import SegmentBatch, read_segments
from decoders.wire.ledger import Ledger, Reason
from decoders.wire.packet import Packet
from decoders.wire.segment import Segment, SocketAddress, read_segment

INTERVAL = 0.005
"""Seconds between two looks. On loopback a bootstrap connection lives for some milliseconds."""
REMEMBERED = 60.0
"""Seconds. As long as Linux gives the addresses of a connection it closed to no other."""
_PORT = 0xFFFF

Ends = frozenset[SocketAddress]
"""The two ends of a connection, as far as they are known."""


class OwnTraffic:
    """Takes the packets of this process's own connections to the watched ports out. A context manager."""

    def __init__(self, ports: Collection[int]) -> None:
        """Watch `ports`, or every port when there are none."""
        self._ports = frozenset(ports)
        self._seen_at: dict[Ends, float] = {}
        self._connecting: set[SocketAddress] = set()
        self._suspects = _Suspects([], ())
        self._sockets = _Sockets()
        self._looking, self._ended = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._keep_looking, name="own-traffic", daemon=True)

    def __enter__(self) -> OwnTraffic:
        self._thread.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def sift(self, packets: PacketBatch, ledger: Ledger) -> PacketBatch:
        """Give the packets that are not our own; those are booked as skipped."""
        self._look()
        # Most packets are told by their ports, and need not be read one by one.
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
        ledger.skip(Reason.OWN, len(segment.payload))
        return True

    def _keep_looking(self) -> None:
        while not self._ended.wait(INTERVAL):
            self._look()

    def _look(self) -> None:
        with self._looking:
            now, sockets = time.monotonic(), self._sockets.ends()
            known = {ends: at for ends, at in self._seen_at.items() if now - at < REMEMBERED}
            known |= {ends: now for ends in sockets if len(ends) == 2 and self._is_watched(ends)}
            connecting = {end for ends in sockets if len(ends) == 1 for end in ends if end.port}
            changed = known.keys() != self._seen_at.keys() or connecting != self._connecting
            self._seen_at, self._connecting = known, connecting
            if changed:
                self._suspects = _Suspects(known, connecting)

    def _is_watched(self, ends: Ends) -> bool:
        return not self._ports or any(end.port in self._ports for end in ends)


class _Sockets:
    """The TCP sockets of this process. One that has told both its ends is not asked again."""

    def __init__(self) -> None:
        self._settled: dict[tuple[str, int], Ends] = {}
        """By descriptor and inode: a descriptor alone may come to be another socket."""

    def ends(self) -> set[Ends]:
        """Give the ends of each connection; of one that is not established, our own end."""
        settled: dict[tuple[str, int], Ends] = {}
        asked: set[Ends] = set()
        for path in Path("/proc/self/fd").iterdir():
            # A descriptor may be closed meanwhile, by a thread of librdkafka.
            with contextlib.suppress(OSError):
                place = path.name, os.fstat(int(path.name)).st_ino
                ends = self._settled.get(place)
                if ends is None:
                    ends = _ask(int(path.name))
                if len(ends) == 1:
                    asked.add(ends)
                else:
                    settled[place] = ends
        self._settled = settled
        return asked | set(settled.values())


def _ask(descriptor: int) -> Ends:
    """Ask a socket for its ends; there are none of what is no TCP connection."""
    if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
        return frozenset()
    with socket.socket(fileno=os.dup(descriptor)) as own:
        return _ends(own)


def _ends(own: socket.socket) -> Ends:
    is_tcp = own.family in (socket.AF_INET, socket.AF_INET6) and own.type == socket.SOCK_STREAM
    if not is_tcp or own.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        return frozenset()
    ours = _address(own.getsockname())
    try:
        return frozenset((ours, _address(own.getpeername())))
    except OSError:
        return frozenset((ours,))


def _address(name: tuple[str, int]) -> SocketAddress:
    address = ipaddress.ip_address(name[0].partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return SocketAddress((mapped or address).packed, name[1])


class _Suspects:
    """The ports of our own connections, and of our ends of those that are not established."""

    def __init__(self, known: Collection[Ends], connecting: Collection[SocketAddress]) -> None:
        self._pairs = np.array(
            [one.port << 16 | other.port for ends in known for one, other in permutations(ends)], np.int64
        )
        self._ports = np.array([end.port for end in connecting], np.int64)

    def among(self, packets: PacketBatch) -> list[int]:
        """Find the packets that may be our own by their ports, or whose ports are not read here."""
        if not (packets.size and (len(self._pairs) or len(self._ports))):
            return []
        segments = read_segments(packets)
        is_suspect: NDArray[np.bool_] = ~segments.familiar | self._are_ours(segments)
        return np.flatnonzero(is_suspect).tolist()

    def _are_ours(self, segments: SegmentBatch) -> NDArray[np.bool_]:
        ports = segments.sockets[:, -1] & (_PORT << 16 | _PORT)
        are_ours: NDArray[np.bool_] = np.isin(ports, self._pairs)
        return are_ours | np.isin(ports >> 16, self._ports) | np.isin(ports & _PORT, self._ports)
