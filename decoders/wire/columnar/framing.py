"""Bytes of a calm lane → frames."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from decoders.compilation import inlined
from decoders.frame.record import Direction
from decoders.wire.assembly import PREFIX
from decoders.wire.columnar.acknowledgements import REQUEST_HEADER
from decoders.wire.columnar.exchanges import ANSWER_HEADER, hear_broker, hear_client
from decoders.wire.columnar.following import DONE, NO_BYTES, NO_ROWS, UNUSUAL, Following
from decoders.wire.columnar.lanes import NOT_YET, TO_BROKER

_FEWEST_BYTES: Final = 8192
_DIRECTIONS = (int(Direction.TO_BROKER), int(Direction.TO_CLIENT))


@inlined
def cut(following: Following, at: Any, end: Any) -> Any:
    """Cut bytes into frames."""
    stream = following.stream_draft[0]
    while at < end:
        if stream.size == NOT_YET:
            at = _read_prefix(following, at, end)
            if at < 0:
                return UNUSUAL
        else:
            at = _add_piece(following, at, end)
            if at < 0:
                return NO_BYTES
            if stream.passed == stream.size:
                heard = _finish_frame(following, at)
                if heard != DONE:
                    return heard
    return DONE


@inlined
def pass_hole(following: Following, at: Any, size: Any) -> Any:
    """Pass bytes that were not captured, behind those that end at a place in the data."""
    lane, stream, totals = following.lane_draft[0], following.stream_draft[0], following.totals_draft[0]
    wanted = stream.size - stream.passed
    if size > wanted:
        return UNUSUAL
    stream.passed += size
    lane.lost += size
    totals.lost += size
    return _finish_frame(following, at + size) if size == wanted else DONE


@inlined
def _read_prefix(following: Following, at: Any, end: Any) -> Any:
    """Read of a length prefix what is there, and tell where to go on; -1 for a length that is unusual."""
    packet, stream = following.packet[0], following.stream_draft[0]
    if stream.prefix_length == 0:
        stream.captured_at = following.captured_at[packet.row]
        stream.position = following.positions[packet.row]
        stream.acknowledgment = following.segments.acknowledgments[packet.row]
        stream.prefix = 0
    while at < end and stream.prefix_length < PREFIX:
        stream.prefix = stream.prefix << 8 | np.int64(following.data[at])
        stream.prefix_length += 1
        at += 1
    if stream.prefix_length == PREFIX:
        shortest = REQUEST_HEADER if packet.direction == TO_BROKER else ANSWER_HEADER
        if stream.prefix < shortest or stream.prefix > following.limits[0].max_frame:
            return -1
        stream.size, stream.capacity = stream.prefix, 0
    return at


@inlined
def _add_piece(following: Following, at: Any, end: Any) -> Any:
    """Add to a frame what is there of it, and tell where to go on; -1 if there is no room."""
    data, stream, totals = following.data, following.stream_draft[0], following.totals_draft[0]
    piece = min(stream.size - stream.passed, end - at)
    if stream.filled < stream.passed:
        totals.after_hole += piece
        following.lane_draft[0].after_hole += piece
        stream.passed += piece
        return at + piece
    if piece == stream.size:
        stream.start = at
    else:
        if stream.filled + piece > stream.capacity:
            capacity = min(stream.size, max(_FEWEST_BYTES, 4 * (stream.filled + piece)))
            if totals.top + capacity > len(data):
                return -1
            start = totals.top
            _copy(data[stream.start : stream.start + stream.filled], data[start : start + stream.filled])
            stream.start, stream.capacity = start, capacity
            totals.top += capacity
        target = stream.start + stream.filled
        _copy(data[at : at + piece], data[target : target + piece])
    stream.filled += piece
    stream.passed += piece
    return at + piece


@inlined
def _finish_frame(following: Following, at: Any) -> Any:
    """Take a frame that is whole, and write it down."""
    packet, lane, stream = following.packet[0], following.lane_draft[0], following.stream_draft[0]
    totals, frames = following.totals_draft[0], following.frames
    row = totals.rows
    if row == len(frames.sequences):
        return NO_ROWS
    heard = hear_client(following) if packet.direction == TO_BROKER else hear_broker(following, at)
    if heard != DONE:
        return heard
    frames.connections[row] = packet.lane
    frames.directions[row] = _DIRECTIONS[packet.direction]
    frames.sequences[row] = totals.next_sequence
    frames.captured_at[row] = stream.captured_at
    frames.positions[row] = stream.position
    frames.starts[row] = stream.start
    frames.lengths[row] = stream.filled
    frames.true_lengths[row] = stream.size
    totals.rows += 1
    totals.next_sequence += 1
    totals.framed += PREFIX + stream.filled
    lane.framed += PREFIX + stream.filled
    lane.told = True
    stream.size, stream.prefix_length, stream.filled, stream.passed = NOT_YET, 0, 0, 0
    return DONE


@inlined
def _copy(source: Any, target: Any) -> None:
    # A slice assignment would first look whether the two overlap, and take the long way.
    for index in range(len(source)):
        target[index] = source[index]
