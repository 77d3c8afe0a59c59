"""Many captured packets as columns."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoders.wire.packet import Packet


class PacketBatch(NamedTuple):
    """Consecutive packets of one source. Packet i is `data[starts[i] : starts[i] + lengths[i]]`.

    `data` is uint8 and writable. Packets use its first `used` bytes; the tracker assembles frames in the
    rest. The other columns are int64 and mean what the fields of `Packet` mean.
    """

    data: NDArray[np.uint8]
    used: int
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    original_lengths: NDArray[np.int64]
    captured_at: NDArray[np.int64]
    positions: NDArray[np.int64]
    link_types: NDArray[np.int64]

    @classmethod
    def of(cls, packets: Iterable[Packet]) -> PacketBatch:
        """Make a batch of single packets."""
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
        """Concatenate batches. A single batch is returned without a copy."""
        if len(batches) == 1:
            return batches[0]
        tops = list(itertools.accumulate((batch.used for batch in batches), initial=0))
        data = np.empty(2 * tops[-1], np.uint8)
        moved = []
        for batch, top in zip(batches, tops, strict=False):
            data[top : top + batch.used] = batch.data[: batch.used]
            moved.append(batch._replace(starts=batch.starts + top)[2:])
        return cls(data, tops[-1], *map(np.concatenate, zip(*moved, strict=True)))

    def chosen(self, rows: NDArray[np.int64]) -> PacketBatch:
        """Return the packets of these rows, in the order of `rows`."""
        return PacketBatch(self.data, self.used, *(column[rows] for column in self[2:]))

    @property
    def size(self) -> int:
        """The number of packets."""
        return len(self.starts)

    def packets(self) -> Iterator[Packet]:
        """Yield the packets one by one, in their order."""
        return map(self.packet, range(self.size))

    def packet(self, index: int) -> Packet:
        """Return one packet."""
        start = int(self.starts[index])
        return Packet(
            int(self.captured_at[index]),
            int(self.link_types[index]),
            self.data[start : start + int(self.lengths[index])].tobytes(),
            int(self.original_lengths[index]),
            int(self.positions[index]),
        )
