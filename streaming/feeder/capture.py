"""Live capture: the packets of network interfaces, from Linux packet sockets (man 7 packet)."""

from __future__ import annotations

import ctypes
import os
import select
import socket
import struct
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from types import TracebackType

import numpy as np

from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.segment import LinkType
from streaming.feeder.packet_filter import Network, machine_code, tcp_ports_filter
from streaming.feeder.ring import Ring

BUFFER_BYTES = 64 * 1024 * 1024
"""Size of the ring per interface: packets that the kernel holds until they are read."""

# Of linux/if_packet.h, linux/if_ether.h and asm-generic/socket.h; the socket module lacks them.
_SOL_PACKET, _PACKET_IGNORE_OUTGOING = 263, 23
_ETH_P_NONE, _ETH_P_ALL = 0, 3
_SO_ATTACH_FILTER = 26

# Of linux/if_arp.h: the kinds of interface that are read.
_ARPHRD_LOOPBACK = 772
_LINKS = {1: LinkType.ETHERNET, _ARPHRD_LOOPBACK: LinkType.ETHERNET, 0xFFFE: LinkType.RAW}


class CaptureError(Exception):
    """An interface cannot be captured; the message is one line that says why, and what to do."""


def can_capture() -> bool:
    """Whether this process is permitted to capture packets."""
    try:
        _packet_socket().close()
    except CaptureError:
        return False
    return True


class InterfaceCapture:
    """TCP packets from and to some ports of some interfaces. A context manager that captures once it is made.

    Without `ports` it captures all TCP. Packets of the networks `excluded` are cut behind their headers.
    Raises CaptureError if an interface or the privilege to capture is missing. The sockets stay open when
    the process gives up the privilege.
    """

    def __init__(
        self,
        interfaces: Sequence[str],
        ports: Collection[int],
        buffer_bytes: int = BUFFER_BYTES,
        excluded: Sequence[Network] = (),
    ) -> None:
        self._sources: dict[int, _InterfaceSocket] = {}
        self._poll = select.poll()
        with ExitStack() as undo:
            for name in interfaces:
                source = undo.enter_context(_InterfaceSocket(name, ports, buffer_bytes, excluded))
                self._sources[source.descriptor] = source
                self._poll.register(source.descriptor, select.POLLIN)
            self._undo = undo.pop_all()

    def __enter__(self) -> InterfaceCapture:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._undo.close()

    def packets(self, timeout: float) -> PacketBatch:
        """Return the packets since the last call; wait for the first at most `timeout` seconds.

        Packets of one interface stay in order. Raises CaptureError if an interface has gone.
        """
        for descriptor, event in self._poll.poll(timeout * 1000):
            if event & select.POLLERR:
                self._sources[descriptor].check()
        batches = [source.ring.read() for source in self._sources.values()]
        captured = [batch for batch in batches if batch.size] or batches[:1]
        together = PacketBatch.joined(captured)
        if len(captured) == 1:
            return together
        # A clock that is set back must not reorder the packets of one interface.
        times = np.concatenate([np.maximum.accumulate(batch.captured_at) for batch in captured])
        return together.chosen(np.argsort(times, kind="stable"))

    @property
    def dropped(self) -> int:
        """How many packets the kernel has dropped so far because they were not read in time."""
        return sum(source.ring.dropped for source in self._sources.values())

    @property
    def unread(self) -> int:
        """How many packets wait to be read."""
        return sum(source.ring.unread for source in self._sources.values())

    @property
    def link_types(self) -> set[LinkType]:
        """The link layers of the interfaces."""
        return {source.link_type for source in self._sources.values()}


class _InterfaceSocket:
    """One interface: its socket and its ring."""

    def __init__(
        self, name: str, ports: Collection[int], buffer_bytes: int, excluded: Sequence[Network]
    ) -> None:
        self._name = name
        self._socket = _packet_socket()
        try:
            self._listen(ports, buffer_bytes, excluded)
        except OSError as error:
            self._socket.close()
            raise CaptureError(f"cannot capture on interface {name}: {error.strerror}") from error
        except (CaptureError, ValueError) as error:
            self._socket.close()
            raise CaptureError(f"cannot capture on interface {name}: {error}") from error

    def __enter__(self) -> _InterfaceSocket:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.ring.close()
        self._socket.close()

    @property
    def descriptor(self) -> int:
        """The descriptor to poll for blocks of the ring."""
        return self._socket.fileno()

    def check(self) -> None:
        """Raise CaptureError if the interface is down or gone."""
        if error := self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise CaptureError(f"capture on interface {self._name} ended: {os.strerror(error)}")

    def _listen(self, ports: Collection[int], buffer_bytes: int, excluded: Sequence[Network]) -> None:
        # Without a protocol the socket receives nothing before the filter is attached.
        self._socket.bind((self._name, _ETH_P_NONE))
        kind = self._socket.getsockname()[3]
        if kind not in _LINKS:
            raise CaptureError(f"its link layer ({kind}) is not supported; use tcpdump -w instead")
        self.link_type = _LINKS[kind]
        self._attach_filter(ports, excluded)
        if kind == _ARPHRD_LOOPBACK:
            # Every packet of loopback is both outgoing and incoming.
            self._socket.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
        self.ring = Ring(self._socket, self.link_type, buffer_bytes)
        self._socket.bind((self._name, _ETH_P_ALL))

    def _attach_filter(self, ports: Collection[int], excluded: Sequence[Network]) -> None:
        program = tcp_ports_filter(ports, self.link_type, excluded)
        code = ctypes.create_string_buffer(machine_code(program))
        pointer = struct.pack("@HP", len(program), ctypes.addressof(code))
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, pointer)


def _packet_socket() -> socket.socket:
    try:
        return socket.socket(socket.AF_PACKET, socket.SOCK_RAW, _ETH_P_NONE)
    except PermissionError as error:
        raise CaptureError("not permitted to capture packets: run as root or with CAP_NET_RAW") from error
