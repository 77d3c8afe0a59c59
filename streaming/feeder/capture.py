"""Live capture: the packets of a network interface, from a Linux packet socket (man 7 packet)."""

from __future__ import annotations

import ctypes
import select
import socket
import struct
from collections.abc import Collection
from types import TracebackType

from decoders.wire.packet import Packet
from decoders.wire.segment import LinkType
from streaming.feeder.packet_filter import machine_code, tcp_ports_filter

RECEIVE_BUFFER = 64 * 1024 * 1024
"""Bytes that the kernel may hold while nobody reads."""
MAX_BATCH = 4096
"""Packets that one call of `packets` gives at most."""
_LARGEST_PACKET = 0x40000

# Of linux/if_packet.h, linux/if_ether.h and asm-generic/socket.h; the socket module lacks them.
_SOL_PACKET, _PACKET_STATISTICS, _PACKET_IGNORE_OUTGOING = 263, 6, 23
_ETH_P_NONE, _ETH_P_ALL = 0, 3
_SO_ATTACH_FILTER, _SO_RCVBUFFORCE, _SO_TIMESTAMPNS = 26, 33, 35
_TIMESPEC = struct.Struct("@ll")
_STATISTICS = struct.Struct("=II")

# Of linux/if_arp.h: which kinds of interface are read, and how long their packets' link header is.
_ARPHRD_LOOPBACK = 772
_LINKS = {
    1: (LinkType.ETHERNET, 14),
    _ARPHRD_LOOPBACK: (LinkType.ETHERNET, 14),
    0xFFFE: (LinkType.RAW, 0),
}


class CaptureError(Exception):
    """An interface cannot be captured: one line that says why, and what to do."""


def can_capture() -> bool:
    """Whether this process has the right to capture packets."""
    try:
        _packet_socket().close()
    except CaptureError:
        return False
    return True


class InterfaceCapture:
    """TCP packets from and to some ports of one interface. A context manager; made, it captures.

    Without `ports` it captures all TCP. Raises CaptureError where the interface or the right to
    capture is missing.
    """

    def __init__(self, interface: str, ports: Collection[int]) -> None:
        self._interface = interface
        self._dropped = 0
        self._buffer = bytearray(_LARGEST_PACKET)
        self._socket = _packet_socket()
        try:
            self._link_type = self._listen(interface, ports)
        except OSError as error:
            self._socket.close()
            raise CaptureError(f"cannot capture on interface {interface}: {error.strerror}") from error
        except (CaptureError, ValueError) as error:
            self._socket.close()
            raise CaptureError(f"cannot capture on interface {interface}: {error}") from error
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)

    def __enter__(self) -> InterfaceCapture:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def packets(self, timeout: float) -> list[Packet]:
        """Give what was captured since the last call; wait for the first at most `timeout` seconds.

        Raises CaptureError when the interface has gone.
        """
        captured: list[Packet] = []
        self._poll.poll(timeout * 1000)
        while len(captured) < MAX_BATCH:
            packet = self._receive()
            if packet is None:
                break
            captured.append(packet)
        return captured

    @property
    def dropped(self) -> int:
        """How many packets the kernel has thrown away so far because nobody read them in time."""
        # Asking sets the kernel's own count to zero.
        statistics = self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, _STATISTICS.size)
        self._dropped += _STATISTICS.unpack(statistics)[1]
        return self._dropped

    def _listen(self, interface: str, ports: Collection[int]) -> LinkType:
        # Bound to no protocol the socket gets nothing: no packet slips in before the filter.
        self._socket.bind((interface, _ETH_P_NONE))
        kind = self._socket.getsockname()[3]
        if kind not in _LINKS:
            raise CaptureError(f"packets of its kind ({kind}) are not understood; use tcpdump -w instead")
        link_type, link_header = _LINKS[kind]
        self._attach_filter(ports, link_header)
        if kind == _ARPHRD_LOOPBACK:
            # There every packet is seen as it goes out and again as it comes in.
            self._socket.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        self._enlarge_buffer()
        self._socket.setblocking(False)
        self._socket.bind((interface, _ETH_P_ALL))
        return link_type

    def _attach_filter(self, ports: Collection[int], link_header: int) -> None:
        program = tcp_ports_filter(ports, link_header)
        code = ctypes.create_string_buffer(machine_code(program))
        pointer = struct.pack("@HP", len(program), ctypes.addressof(code))
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, pointer)

    def _enlarge_buffer(self) -> None:
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, RECEIVE_BUFFER)
        except PermissionError:
            # Only CAP_NET_ADMIN may go beyond the system's limit, net.core.rmem_max.
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)

    def _receive(self) -> Packet | None:
        try:
            # With MSG_TRUNC the length is that of the packet, however much of it was copied.
            length, ancillary, _flags, _address = self._socket.recvmsg_into(
                [self._buffer], socket.CMSG_SPACE(_TIMESPEC.size), socket.MSG_TRUNC
            )
        except BlockingIOError:
            return None
        except OSError as error:
            raise CaptureError(f"capture on interface {self._interface} ended: {error.strerror}") from error
        data = bytes(memoryview(self._buffer)[:length])
        return Packet(_captured_at(ancillary), self._link_type, data, length)


def _captured_at(ancillary: list[tuple[int, int, bytes]]) -> int:
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS):
            seconds, nanoseconds = _TIMESPEC.unpack(data)
            return int(seconds) * 1_000_000_000 + int(nanoseconds)
    raise CaptureError("the kernel gave a packet without the time of its capture")


def _packet_socket() -> socket.socket:
    try:
        return socket.socket(socket.AF_PACKET, socket.SOCK_RAW, _ETH_P_NONE)
    except PermissionError as error:
        raise CaptureError("no right to capture packets: run as root or with CAP_NET_RAW") from error
