"""The ring buffer of a packet socket, shared with the kernel: no system call per packet.

TPACKET_V3 of linux/if_packet.h, described at https://docs.kernel.org/networking/packet_mmap.html. The
kernel fills blocks and passes each on when it is full, or `RETIRE_MILLISECONDS` after its first packet;
the reader returns it to the kernel.
"""

from __future__ import annotations

import mmap
import socket
import struct
from contextlib import suppress
from typing import Any, Final

import numpy as np

from decoders.compilation import compiled
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.segment import LinkType

BLOCK_BYTES = 128 * 1024
"""A packet must fit into a block or is cut; the largest that Linux makes has 64 KiB. At a low rate every
`RETIRE_MILLISECONDS` take a block, so that many small blocks hold packets of a longer time."""
RETIRE_MILLISECONDS = 50
"""How long a packet waits at most until its block is passed on."""
MAX_BLOCKS = 32
"""Maximum number of blocks that one call of `read` returns."""

_SOL_PACKET, _PACKET_RX_RING, _PACKET_STATISTICS, _PACKET_VERSION = 263, 5, 6, 10
_TPACKET_V3 = 2
_FRAME_BYTES = 2048
"""Required, and a divisor of the block size, although this version packs packets without gaps."""
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


class Ring:
    """The ring of one packet socket. `close` frees its memory."""

    def __init__(self, packet_socket: socket.socket, link_type: LinkType, size: int) -> None:
        """Make a ring of `size` bytes, at least two blocks. Raises OSError if the kernel lacks memory."""
        self._socket = packet_socket
        self._link_type = link_type
        self._blocks = max(2, size // BLOCK_BYTES)
        self._next = 0
        self._dropped = 0
        packet_socket.setsockopt(_SOL_PACKET, _PACKET_VERSION, _TPACKET_V3)
        packet_socket.setsockopt(_SOL_PACKET, _PACKET_RX_RING, self._request())
        self._memory = mmap.mmap(packet_socket.fileno(), self._blocks * BLOCK_BYTES)
        self._bytes = np.frombuffer(self._memory, np.uint8)
        # Compile before packets wait, and before the process changes to a user who may not read the cache.
        copy_packets(self._bytes, 0, 0, np.empty(0, np.uint8), 0, np.empty((4, 0), np.int64), 0)

    def close(self) -> None:
        """Unmap the ring. The socket stays open."""
        del self._bytes
        # After an error in `read`, its traceback still holds views of the ring. Unmapping then waits for
        # them; an exception here would hide that error.
        with suppress(BufferError):
            self._memory.close()

    def read(self) -> PacketBatch:
        """Return the packets of the filled blocks, and the blocks to the kernel. Never waits."""
        blocks = self._filled_blocks(MAX_BLOCKS)
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
        """How many packets wait to be read, without those of the block that the kernel is filling."""
        return sum(packets for _, packets, _, _ in self._filled_blocks(self._blocks))

    def _request(self) -> bytes:
        frames = self._blocks * BLOCK_BYTES // _FRAME_BYTES
        return _REQUEST.pack(BLOCK_BYTES, self._blocks, _FRAME_BYTES, frames, RETIRE_MILLISECONDS, 0, 0)


@compiled(None)
def copy_packets(  # noqa: PLR0917 - compiled functions have no keyword arguments
    memory: Any, at: int, count: int, data: Any, top: int, columns: Any, row: int
) -> int:
    """Copy `count` packets from byte `at` of the ring to byte `top` of `data`; returns the end of the copies.

    Fills `columns` (starts, lengths, original lengths, capture times) from column `row` on: a slice of them
    would have another memory layout than the call that compiles, and so be compiled again. A VLAN tag, which
    the kernel moves from the packet into its header of the ring, is inserted again.
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
