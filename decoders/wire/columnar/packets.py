"""Many captured packets as columns, and a capture file as batches of them.

A classic pcap file is read in chunks, whose packets are found by compiled code and not copied. Other formats
are read packet by packet.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from decoders.compilation import compiled, inlined
from decoders.memory import bounds_of
from decoders.wire.pcap import LARGEST_PACKET, RECORD_HEADER_SIZE, CaptureReader, PcapError, PcapReader
from decoders.wire.segment import Packet

CHUNK = 4 * 1024 * 1024
"""Bytes of a file that are read at once: few enough to fit the processor's cache."""
_MAX_PACKETS = 10_000


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
        lengths = np.array([len(packet.data) for packet in listed], np.int64)
        return cls(
            np.frombuffer(data, np.uint8),
            len(data),
            bounds_of(lengths)[:-1],
            lengths,
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
        tops = bounds_of([batch.used for batch in batches]).tolist()
        data = np.empty(2 * tops[-1], np.uint8)
        shifted = []
        for batch, top in zip(batches, tops, strict=False):
            data[top : top + batch.used] = batch.data[: batch.used]
            shifted.append(batch._replace(starts=batch.starts + top)[2:])
        return cls(data, tops[-1], *map(np.concatenate, zip(*shifted, strict=True)))

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


def read_batches(
    capture: CaptureReader, *, chunk: int = CHUNK, has_more: Callable[[], bool] | None = None
) -> Iterator[PacketBatch]:
    """Yield the packets of a capture, and update its `truncated` and `position`.

    The capture must not be iterated otherwise. `has_more` is for streams that are still written, such as
    pipes: it returns whether bytes are available at once; otherwise the packets read so far are yielded.
    Memory holds two chunks, so the data of a batch is overwritten when the next but one is read. Raises
    PcapError where the reader does, after the last complete packet.
    """
    if isinstance(capture, PcapReader):
        yield from _read_chunks(capture, chunk, has_more)
        return
    listed: list[Packet] = []
    try:
        for packet in capture:
            listed.append(packet)
            if len(listed) == _MAX_PACKETS or (has_more and not has_more()):
                yield PacketBatch.of(listed)
                listed.clear()
    except PcapError:
        yield PacketBatch.of(listed)
        raise
    yield PacketBatch.of(listed)


def _read_chunks(
    capture: PcapReader, chunk: int, has_more: Callable[[], bool] | None
) -> Iterator[PacketBatch]:
    buffers = [np.empty(0, np.uint8), np.empty(0, np.uint8)]
    columns = [_columns_for(0), _columns_for(0)]
    rest = np.empty(0, np.uint8)
    capture.truncated = False
    while True:
        buffers.reverse()
        columns.reverse()
        buffers[0] = data = _buffer_for(len(rest) + chunk, buffers[0])
        data[: len(rest)] = rest
        end = len(rest) + _fill(capture.stream, data[len(rest) : len(rest) + chunk], has_more)
        if end == len(rest):
            break
        if columns[0].shape[1] < end // RECORD_HEADER_SIZE:
            columns[0] = _columns_for(len(data))
        batch, claimed = _complete_packets(capture, data, end, columns[0])
        used = int(batch.starts[-1] + batch.lengths[-1]) if batch.size else 0
        capture.position += used
        rest = data[used:end].copy()
        if batch.size:
            yield batch
        if claimed > LARGEST_PACKET:
            raise PcapError(f"damaged: the packet at byte {capture.position} claims {claimed} bytes")
    if len(rest):
        capture.mark_truncated()


def _buffer_for(size: int, data: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return a buffer for `size` bytes, with room to assemble frames of several segments."""
    return data if len(data) >= 2 * size else np.empty(3 * size, np.uint8)


def _columns_for(size: int) -> NDArray[np.int64]:
    """Return room for the columns of the packets in `size` bytes."""
    return np.empty((5, size // RECORD_HEADER_SIZE), np.int64)


def _fill(stream: BinaryIO, target: NDArray[np.uint8], has_more: Callable[[], bool] | None) -> int:
    """Read until the target is full or no more bytes are available, and return how many were read."""
    filled = 0
    while filled < len(target) and not (filled and has_more and not has_more()):
        size = _read_into(cast(io.BufferedIOBase, stream), target[filled:], at_once=has_more is not None)
        if not size:
            break
        filled += size
    return filled


def _read_into(stream: io.BufferedIOBase, target: NDArray[np.uint8], *, at_once: bool) -> int:
    if not at_once:
        return stream.readinto(target.data)
    # Unlike read1, readinto1 may wait for more bytes of a pipe although some are buffered.
    piece = stream.read1(len(target))
    target[: len(piece)] = np.frombuffer(piece, np.uint8)
    return len(piece)


def _complete_packets(
    capture: PcapReader, data: NDArray[np.uint8], end: int, columns: NDArray[np.int64]
) -> tuple[PacketBatch, int]:
    """Return the complete packets in `data[:end]`, and the length that a damaged one after them claims.

    `columns` is memory for them: starts and lengths of the batch are part of it.
    """
    count, claimed = _index(data, end, capture.is_big_endian, columns)
    starts, lengths, original_lengths, seconds, ticks = columns[:, :count]
    captured_at = seconds * 1_000_000_000 + ticks * capture.nanoseconds_per_tick
    positions = starts + (capture.position - RECORD_HEADER_SIZE)
    link_types = np.full(count, capture.link_type)
    batch = PacketBatch(data, end, starts, lengths, original_lengths, captured_at, positions, link_types)
    return batch, claimed


@inlined
def _word(data: Any, at: int, is_big_endian: bool) -> Any:
    value = np.int64(0)
    for index in range(4):
        value = value << 8 | np.int64(data[at + (index if is_big_endian else 3 - index)])
    return value


@compiled(None)
def _index(data: Any, end: int, is_big_endian: bool, columns: Any) -> tuple[int, int]:
    """Find the complete packets. Returns their number, and the length that a damaged one claims, else 0."""
    count, at = 0, 0
    while at + RECORD_HEADER_SIZE <= end:
        start, captured = at + RECORD_HEADER_SIZE, _word(data, at + 8, is_big_endian)
        if captured > LARGEST_PACKET:
            return count, captured
        if start + captured > end:
            break
        columns[0, count] = start
        columns[1, count] = captured
        columns[2, count] = _word(data, at + 12, is_big_endian)
        columns[3, count] = _word(data, at, is_big_endian)
        columns[4, count] = _word(data, at + 4, is_big_endian)
        count += 1
        at = start + captured
    return count, 0
