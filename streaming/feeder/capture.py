"""Live capture: the packets of network interfaces, from Linux packet sockets (man 7 packet).

Each interface has a socket with the packet filter and a ring buffer that it shares with the kernel, so that
no packet costs a system call. The ring is TPACKET_V3 of linux/if_packet.h, described at
https://docs.kernel.org/networking/packet_mmap.html: the kernel fills blocks and passes each on when it is
full, or `RETIRE_MILLISECONDS` after its first packet; the reader returns it to the kernel.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import select
import socket
import struct
from collections.abc import Collection, Sequence
from contextlib import ExitStack, suppress
from typing import Any, Final

import numpy as np
from numba import types

from decoders.compilation import compiled
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.segment import LinkType
from streaming.feeder.packet_filter import Network, machine_code, tcp_ports_filter
from streaming.user_error import UserError

BLOCK_BYTES = 128 * 1024
"""A packet that does not fit into a block is cut; the largest that Linux makes has 64 KiB. Blocks are small
because at a low rate each `RETIRE_MILLISECONDS` use up a block."""
RETIRE_MILLISECONDS = 50
"""The longest time that a packet waits until its block is passed on."""
MAX_BLOCKS = 32
"""Maximum number of blocks that one call of `Ring.read` takes."""

_SOL_PACKET, _PACKET_RX_RING, _PACKET_STATISTICS, _PACKET_VERSION = 263, 5, 6, 10
_TPACKET_V3 = 2
_FRAME_BYTES = 2048
"""The kernel demands a divisor of the block size, although version 3 packs packets without gaps."""
_STATUS_KERNEL, _STATUS_USER = 0, 1
_VLAN_VALID: Final = 0x10
_VLAN_TPID_VALID: Final = 0x40
_ETHERTYPE_VLAN: Final = 0x8100
_BEHIND_MAC_ADDRESSES: Final = 12
_VLAN_TAG: Final = 4

_STATISTICS = struct.Struct("=III")
_REQUEST = struct.Struct("=7I")
_BLOCK_STATUS = struct.Struct("=I")
_BLOCK_STATUS_AT = 8
_BLOCK = struct.Struct("=8xIIII")
"""tpacket_block_desc: status, number of packets, offset of the first, bytes used."""
# tpacket3_hdr: offsets of its fields, the first seven in words of 32 bits, the last two in words of 16.
_NEXT, _SECONDS, _NANOSECONDS, _CAPTURED, _ORIGINAL, _STATUS, _TAG = (0, 1, 2, 3, 4, 5, 8)
_MAC, _TAG_TYPE = (12, 18)
BUFFER_BYTES = 64 * 1024 * 1024
"""Size of the ring per interface: packets that the kernel holds until they are read."""

# Of linux/if_packet.h, linux/if_ether.h and asm-generic/socket.h; the socket module lacks them.
_PACKET_IGNORE_OUTGOING = 23
_ETH_P_NONE, _ETH_P_ALL = 0, 3
_SO_ATTACH_FILTER = 26

# Of linux/if_arp.h: the kinds of interface that are read.
_ARPHRD_LOOPBACK = 772
_LINKS = {1: LinkType.ETHERNET, _ARPHRD_LOOPBACK: LinkType.ETHERNET, 0xFFFE: LinkType.RAW}


class Ring:
    """The ring buffer of one packet socket. `close` frees its memory."""

    def __init__(self, packet_socket: socket.socket, link_type: LinkType, size: int) -> None:
        """Make a ring of `size` bytes, at least two blocks. Raises OSError if the kernel lacks memory."""
        self._socket = packet_socket
        self._link_type = link_type
        self._blocks = max(2, size // BLOCK_BYTES)
        self._next = 0
        self._dropped = 0
        self.is_behind = False
        """Whether the latest `read` may have left filled blocks."""
        packet_socket.setsockopt(_SOL_PACKET, _PACKET_VERSION, _TPACKET_V3)
        packet_socket.setsockopt(_SOL_PACKET, _PACKET_RX_RING, self._request())
        self._memory = mmap.mmap(packet_socket.fileno(), self._blocks * BLOCK_BYTES)
        self._bytes = np.frombuffer(self._memory, np.uint8)

    def close(self) -> None:
        """Unmap the ring. The socket stays open."""
        del self._bytes
        # After an error in `read`, its traceback still holds views of the ring. Unmapping then waits for
        # them; an exception here would hide that error.
        with suppress(BufferError):
            self._memory.close()

    def read(self) -> PacketBatch:
        """Copy the packets out of the filled blocks and return the blocks to the kernel. Never waits."""
        blocks = self._filled_blocks(MAX_BLOCKS)
        self.is_behind = len(blocks) >= min(MAX_BLOCKS, self._blocks)
        room, count = sum(used for *_, used in blocks), sum(packets for _, packets, _, _ in blocks)
        data, columns = np.empty(2 * room, np.uint8), np.empty((4, count), np.int64)
        row = top = 0
        for start, packets, first, _ in blocks:
            top = copy_packets(self._bytes, start + first, packets, data, top, columns, row)
            _BLOCK_STATUS.pack_into(self._memory, start + _BLOCK_STATUS_AT, _STATUS_KERNEL)
            row += packets
        self._next = (self._next + len(blocks)) % self._blocks
        starts, lengths, original_lengths, captured_at = columns
        positions, links = np.zeros(count, np.int64), np.full(count, int(self._link_type))
        return PacketBatch(data, top, starts, lengths, original_lengths, captured_at, positions, links)

    def _filled_blocks(self, most: int) -> list[tuple[int, int, int, int]]:
        """Return (start, number of packets, offset of the first, bytes used) of each filled block."""
        blocks = []
        for number in range(self._next, self._next + min(most, self._blocks)):
            start = number % self._blocks * BLOCK_BYTES
            status, packets, first, used = _BLOCK.unpack_from(self._memory, start)
            if not status & _STATUS_USER:
                break
            blocks.append((start, packets, first, used))
        return blocks

    @property
    def dropped(self) -> int:
        """How many packets the kernel has dropped so far because no block was free."""
        # Reading sets the kernel's own count to zero.
        statistics = self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, _STATISTICS.size)
        self._dropped += _STATISTICS.unpack(statistics)[1]
        return self._dropped

    @property
    def unread(self) -> int:
        """How many packets wait to be read, without the block that the kernel is filling."""
        return sum(packets for _, packets, _, _ in self._filled_blocks(self._blocks))

    def _request(self) -> bytes:
        frames = self._blocks * BLOCK_BYTES // _FRAME_BYTES
        return _REQUEST.pack(BLOCK_BYTES, self._blocks, _FRAME_BYTES, frames, RETIRE_MILLISECONDS, 0, 0)


@compiled(
    types.int64(
        types.uint8[::1],
        types.int64,
        types.int64,
        types.uint8[::1],
        types.int64,
        types.int64[:, ::1],
        types.int64,
    )
)
def copy_packets(  # noqa: PLR0917 - compiled functions have no keyword arguments
    memory: Any, at: int, count: int, data: Any, top: int, columns: Any, row: int
) -> int:
    """Copy `count` packets from byte `at` of the ring to byte `top` of `data`; returns the end of the copies.

    Fills `columns` (starts, lengths, original lengths, capture times) from column `row` on. Passing a slice
    instead would change the memory layout and so compile the function again. The kernel moves a VLAN tag from
    the packet into its header of the ring; the copy inserts the tag again.
    """
    for number in range(row, row + count):
        words, halves = memory[at : at + 40].view(np.uint32), memory[at : at + 40].view(np.uint16)
        source, captured, tag_bytes, begin = at + halves[_MAC], words[_CAPTURED], 0, top
        if words[_STATUS] & _VLAN_VALID:
            tag_bytes = _VLAN_TAG
            kind = halves[_TAG_TYPE] if words[_STATUS] & _VLAN_TPID_VALID else _ETHERTYPE_VLAN
            tag = kind << 16 | words[_TAG] & 0xFFFF
            for index in range(_VLAN_TAG):
                data[begin + _BEHIND_MAC_ADDRESSES + index] = tag >> (24 - 8 * index) & 0xFF
        for index in range(captured):
            data[top + index + (tag_bytes if index >= _BEHIND_MAC_ADDRESSES else 0)] = memory[source + index]
        columns[0, number] = begin
        columns[1, number] = captured + tag_bytes
        columns[2, number] = words[_ORIGINAL] + tag_bytes
        columns[3, number] = np.int64(words[_SECONDS]) * 1_000_000_000 + words[_NANOSECONDS]
        top += captured + tag_bytes
        at += words[_NEXT]
    return top


class CaptureError(UserError):
    """An interface cannot be captured; the message is one line that says why, and what to do."""


def can_capture() -> bool:
    """Whether this process is permitted to capture packets."""
    try:
        _packet_socket().close()
    except CaptureError:
        return False
    return True


class InterfaceCapture:
    """Captures TCP packets from and to `ports` on some interfaces, from its creation on. A context manager.

    Without `ports` it captures all TCP. Packets of the networks `excluded` are cut behind their headers. The
    sockets stay open when the process gives up the privilege to capture. Raises CaptureError if an interface
    or the privilege is missing.
    """

    def __init__(
        self,
        interfaces: Sequence[str],
        ports: Collection[int],
        buffer_bytes: int = BUFFER_BYTES,
        excluded: Sequence[Network] = (),
    ) -> None:
        self.read_until: int | None = None
        """If an interface is behind: the capture time, in nanoseconds, up to which all are read."""
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

    def __exit__(self, *_: object) -> None:
        self._undo.close()

    def packets(self, timeout: float) -> PacketBatch:
        """Return the packets since the last call; wait for the first at most `timeout` seconds.

        Packets of one interface stay in order. Raises CaptureError if an interface has gone.
        """
        for descriptor, event in self._poll.poll(timeout * 1000):
            if event & select.POLLERR:
                self._sources[descriptor].check()
        rings = [source.ring for source in self._sources.values()]
        batches = [ring.read() for ring in rings]
        behind = zip(rings, batches, strict=True)
        ends = [int(batch.captured_at[-1]) for ring, batch in behind if ring.is_behind and batch.size]
        self.read_until = min(ends, default=None)
        captured = [batch for batch in batches if batch.size] or batches[:1]
        together = PacketBatch.joined(captured)
        if len(captured) == 1:
            return together
        # If the clock is set back, packets of one interface must keep their order.
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


class _InterfaceSocket:
    """The packet socket of one interface, and its ring."""

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

    def __exit__(self, *_: object) -> None:
        self.ring.close()
        self._socket.close()

    @property
    def descriptor(self) -> int:
        """The descriptor to poll for filled blocks."""
        return self._socket.fileno()

    def check(self) -> None:
        """Raise CaptureError if the interface is down or gone."""
        if error := self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise CaptureError(f"capture on interface {self._name} ended: {os.strerror(error)}")

    def _listen(self, ports: Collection[int], buffer_bytes: int, excluded: Sequence[Network]) -> None:
        # Bound without a protocol, the socket receives nothing until the filter is attached.
        self._socket.bind((self._name, _ETH_P_NONE))
        kind = self._socket.getsockname()[3]
        if kind not in _LINKS:
            raise CaptureError(f"its link layer ({kind}) is not supported; use tcpdump -w instead")
        self.link_type = _LINKS[kind]
        self._attach_filter(ports, excluded)
        if kind == _ARPHRD_LOOPBACK:
            # Loopback delivers every packet twice: as outgoing and as incoming.
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
