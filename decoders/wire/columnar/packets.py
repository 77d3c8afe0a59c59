"""Many captured packets as columns."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoders.wire.packet import Packet


class PacketBatch(NamedTuple):
    """Consecutive packets of one source; packet i lies at `data[starts[i] : starts[i] + lengths[i]]`.

    `data` is uint8 and writable: its bytes from `room` on belong to no packet, and the tracker puts
    frames together there. The other columns are int64 and mean what the fields of `Packet` mean.
    """

    data: NDArray[np.uint8]
    room: int
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    original_lengths: NDArray[np.int64]
    captured_at: NDArray[np.int64]
    positions: NDArray[np.int64]
    link_types: NDArray[np.int64]

    @classmethod
    def of(cls, packets: Iterable[Packet]) -> PacketBatch:
        """Gather packets that came one by one."""
        listed = list(packets)
        data = bytearray().join(packet.data for packet in listed)
        lengths = [len(packet.data) for packet in listed]
        starts = itertools.accumulate(lengths[:-1], initial=0) if lengths else ()
        return cls(
            np.frombuffer(data, np.uint8),
            len(data),
            np.array(list(starts), np.int64),
            np.array(lengths, np.int64),
            np.array([packet.original_length for packet in listed], np.int64),
            np.array([packet.captured_at for packet in listed], np.int64),
            np.array([packet.position for packet in listed], np.int64),
            np.array([packet.link_type for packet in listed], np.int64),
        )

    @classmethod
    def joined(cls, batches: Sequence[PacketBatch]) -> PacketBatch:
        """Put batches behind each other. One alone is given as it is."""
        if len(batches) == 1:
            return batches[0]
        tops = list(itertools.accumulate((batch.room for batch in batches), initial=0))
        data = np.empty(2 * tops[-1], np.uint8)
        moved = []
        for batch, top in zip(batches, tops, strict=False):
            data[top : top + batch.room] = batch.data[: batch.room]
            moved.append(batch._replace(starts=batch.starts + top)[2:])
        return cls(data, tops[-1], *map(np.concatenate, zip(*moved, strict=True)))

    def chosen(self, rows: NDArray[np.int64]) -> PacketBatch:
        """Give some of the packets, by number, in the order of `rows`."""
        return PacketBatch(self.data, self.room, *(column[rows] for column in self[2:]))

    @property
    def size(self) -> int:
        """How many packets there are."""
        return len(self.starts)

    def packets(self) -> Iterator[Packet]:
        """Give each packet on its own, in their order."""
        return map(self.packet, range(self.size))

    def packet(self, index: int) -> Packet:
        """Give one packet on its own."""
        start = int(self.starts[index])
        return Packet(
            int(self.captured_at[index]),
            int(self.link_types[index]),
            self.data[start : start + int(self.lengths[index])].tobytes(),
            int(self.original_lengths[index]),
            int(self.positions[index]),
        )
