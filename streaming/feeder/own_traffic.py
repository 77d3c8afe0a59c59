"""Removes the feeder's own connections from the capture: publishing their records would cause more records.

The addresses come from the sockets of this process. They are read again for each batch of packets, after the
capture of the batch: a socket that has sent a packet is known by then, if it still exists. Some do not, since
librdkafka closes its bootstrap connection as soon as it knows the brokers; so a thread reads them all the
time. On a busy machine it may be late: then the mark in the first request shows it (see `own_mark`). A
connection that has ended is remembered for a while, as its packets may not have been read yet.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import stat
import threading
import time
from collections.abc import Collection, Iterable
from itertools import permutations
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.columnar.segments import SegmentBatch, read_segments
from decoders.wire.ledger import Ledger, SkipReason
from decoders.wire.packet import Packet
from decoders.wire.segment import Segment, SocketAddress, read_segment
from streaming.feeder.own_mark import OwnMark

INTERVAL = 0.005
"""Seconds between two reads. On loopback a bootstrap connection lives for some milliseconds."""
REMEMBERED = 60.0
"""Seconds: as long as Linux keeps the addresses of a closed connection in TIME_WAIT."""
_PORT = 0xFFFF

Ends = frozenset[SocketAddress]
"""The two ends of a connection; only our own while it is being established."""


class OwnTraffic:
    """Removes the packets of this process's own connections to the watched ports. A context manager.

    The Kafka clients of this process must be made with the settings of its `mark`.
    """

    def __init__(self, ports: Collection[int]) -> None:
        """Watch `ports`, or every port if there are none."""
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

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def without_own(self, packets: PacketBatch, ledger: Ledger) -> PacketBatch:
        """Return the packets of other processes; our own are counted as skipped in the ledger."""
        self._refresh(self.mark.connections(packets))
        # The ports rule most packets out, so that few have to be parsed one by one.
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
    """The TCP sockets of this process. A socket with both ends known is not read again."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], Ends] = {}
        """By descriptor and inode: a descriptor alone may be reused for another socket."""

    def ends(self) -> set[Ends]:
        """Return the ends of each connection; of one that is not established, our own end."""
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
    """Return the ends of a TCP connection; none for any other descriptor."""
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
    """The ports of our own connections, and of our ends of those that are being established."""

    def __init__(self, known: Collection[Ends], connecting: Collection[SocketAddress]) -> None:
        self._pairs = np.array(
            [one.port << 16 | other.port for ends in known for one, other in permutations(ends)], np.int64
        )
        self._ports = np.array([end.port for end in connecting], np.int64)

    def among(self, packets: PacketBatch) -> list[int]:
        """Return the rows of packets that may be our own by their ports, or whose ports are unknown here."""
        if not (packets.size and (len(self._pairs) or len(self._ports))):
            return []
        segments = read_segments(packets)
        is_suspect: NDArray[np.bool_] = ~segments.parsed | self._are_ours(segments)
        return np.flatnonzero(is_suspect).tolist()

    def _are_ours(self, segments: SegmentBatch) -> NDArray[np.bool_]:
        ports = segments.sockets[:, -1] & (_PORT << 16 | _PORT)
        are_ours: NDArray[np.bool_] = np.isin(ports, self._pairs)
        return are_ours | np.isin(ports >> 16, self._ports) | np.isin(ports & _PORT, self._ports)
