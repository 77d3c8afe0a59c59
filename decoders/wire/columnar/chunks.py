"""A capture file as batches of packets: a classic pcap file by the chunk, others packet by packet."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from decoders.compilation import compiled, inlined
from decoders.wire.capture_file import CaptureReader
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.packet import Packet
from decoders.wire.pcap import LARGEST_PACKET, RECORD_HEADER_SIZE, PcapError, PcapReader

CHUNK = 4 * 1024 * 1024
"""Bytes of a file that are read at once: few enough to stay in the processor's cache."""
_PACKETS_AT_ONCE = 10_000


def read_batches(
    capture: CaptureReader, *, chunk: int = CHUNK, has_more: Callable[[], bool] | None = None
) -> Iterator[PacketBatch]:
    """Give the packets of a capture, which is not iterated otherwise; `truncated` and `position` are kept.

    Of a stream that others still write, `has_more` tells whether bytes can be read at once: where there are
    none, what came before is given. Memory holds two chunks, or packets where these are larger: the data of a
    batch is written over when the next but one is read. Raises PcapError as the reader does, behind the
    last whole packet.
    """
    if isinstance(capture, PcapReader):
        yield from _read_chunks(capture, chunk, has_more)
        return
    listed: list[Packet] = []
    try:
        for packet in capture:
            listed.append(packet)
            if len(listed) == _PACKETS_AT_ONCE or (has_more and not has_more()):
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
    rest = np.empty(0, np.uint8)
    capture.truncated = False
    while True:
        buffers.reverse()
        buffers[0] = data = _at_least(len(rest) + chunk, buffers[0])
        data[: len(rest)] = rest
        end = len(rest) + _fill(capture.stream, data[len(rest) : len(rest) + chunk], has_more)
        if end == len(rest):
            break
        batch, claimed = _whole_packets(capture, data, end)
        used = int(batch.starts[-1] + batch.lengths[-1]) if batch.size else 0
        capture.position += used
        rest = data[used:end].copy()
        if batch.size:
            yield batch
        if claimed > LARGEST_PACKET:
            raise PcapError(f"damaged: the packet at byte {capture.position} claims {claimed} bytes")
    if len(rest):
        capture.stop_short()


def _at_least(size: int, data: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Give a buffer for so many bytes, with room for the frames in several segments."""
    return data if len(data) >= 2 * size else np.empty(3 * size, np.uint8)


def _fill(stream: BinaryIO, target: NDArray[np.uint8], has_more: Callable[[], bool] | None) -> int:
    """Read until the target is full or nothing more is to be had, and tell how many bytes came."""
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
    # Where something is buffered, readinto1 might wait for more of a pipe all the same.
    piece = stream.read1(len(target))
    target[: len(piece)] = np.frombuffer(piece, np.uint8)
    return len(piece)


def _whole_packets(capture: PcapReader, data: NDArray[np.uint8], end: int) -> tuple[PacketBatch, int]:
    """Give the packets that are whole in `data[:end]`, and the length that the one behind them claims."""
    columns = np.empty((5, end // RECORD_HEADER_SIZE), np.int64)
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
    """Find the packets that are whole; gives how many, and the length that one claims that is damaged."""
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
