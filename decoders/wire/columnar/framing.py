"""Compiled: the bytes of an offloaded flow → frames."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from decoders.codec.columnar.head import REQUEST_LEAD
from decoders.compilation import inlined
from decoders.frame.record import Direction
from decoders.wire.assembly import PREFIX
from decoders.wire.columnar.copying import copy_bytes
from decoders.wire.columnar.fast_path import DONE, OUT_OF_BYTES, OUT_OF_ROWS, SLOW_PATH, FastPathState
from decoders.wire.columnar.flows import TO_BROKER, UNSET
from decoders.wire.columnar.pairing import RESPONSE_HEADER, process_request, process_response

_MIN_CAPACITY: Final = 256
_DIRECTIONS = (int(Direction.TO_BROKER), int(Direction.TO_CLIENT))


@inlined
def cut_frames(state: FastPathState, at: Any, end: Any) -> Any:
    """Cut the bytes from `at` to `end` of the data into frames. Returns DONE, or why that is not possible."""
    stream = state.stream_draft[0]
    while at < end:
        if stream.size == UNSET:
            at = _read_prefix(state, at, end)
            if at < 0:
                return SLOW_PATH
        else:
            at = _add_piece(state, at, end)
            if at < 0:
                return OUT_OF_BYTES
            if stream.passed == stream.size:
                status = _finish_frame(state, at)
                if status != DONE:
                    return status
    return DONE


@inlined
def skip_hole(state: FastPathState, at: Any, size: Any) -> Any:
    """Skip `size` bytes that were not captured, which follow those that end at `at` of the data."""
    flow, stream = state.flow_draft[0], state.stream_draft[0]
    wanted = stream.size - stream.passed
    if size > wanted:
        return SLOW_PATH
    stream.passed += size
    flow.lost += size
    return _finish_frame(state, at + size) if size == wanted else DONE


@inlined
def _read_prefix(state: FastPathState, at: Any, end: Any) -> Any:
    """Read the bytes of a length prefix. Returns the offset behind them, -1 for an unusual size."""
    packet, stream = state.packet[0], state.stream_draft[0]
    if stream.prefix_length == 0:
        stream.captured_at, stream.position = packet.captured_at, packet.position
        stream.acknowledgment = packet.acknowledgment
        stream.prefix = 0
    while at < end and stream.prefix_length < PREFIX:
        stream.prefix = stream.prefix << 8 | np.int64(state.data[at])
        stream.prefix_length += 1
        at += 1
    if stream.prefix_length == PREFIX:
        shortest = REQUEST_LEAD if packet.direction == TO_BROKER else RESPONSE_HEADER
        if stream.prefix < shortest or stream.prefix > state.limits[0].max_frame:
            return -1
        stream.size, stream.capacity = stream.prefix, 0
    return at


@inlined
def _add_piece(state: FastPathState, at: Any, end: Any) -> Any:
    """Add bytes to the frame under assembly. Returns the offset behind them, -1 if there is no room."""
    data, stream, totals = state.data, state.stream_draft[0], state.totals_draft[0]
    piece = min(stream.size - stream.passed, end - at)
    if stream.filled < stream.passed:
        state.flow_draft[0].after_hole += piece
        stream.passed += piece
        return at + piece
    if piece == stream.size:
        stream.start = at
    elif state.flow_draft[0].is_tls and stream.filled in (0, at - stream.start):
        # The plaintext of successive records is in one place.
        stream.start, stream.capacity = at - stream.filled, stream.filled + piece
    else:
        if stream.filled + piece > stream.capacity:
            capacity = min(stream.size, max(_MIN_CAPACITY, 2 * (stream.filled + piece)))
            # The frame that was assembled last grows where it is.
            is_last = stream.capacity > 0 and stream.start + stream.capacity == totals.top
            start = stream.start if is_last else totals.top
            if start + capacity > len(data):
                return -1
            if not is_last:
                begun = data[stream.start : stream.start + stream.filled]
                copy_bytes(begun, data[start : start + stream.filled])
            stream.start, stream.capacity = start, capacity
            totals.top = start + capacity
        target = stream.start + stream.filled
        copy_bytes(data[at : at + piece], data[target : target + piece])
    stream.filled += piece
    stream.passed += piece
    return at + piece


@inlined
def _finish_frame(state: FastPathState, at: Any) -> Any:
    """Process a complete frame, which ends at `at` of the data, and write its row."""
    packet, flow, stream = state.packet[0], state.flow_draft[0], state.stream_draft[0]
    totals, frames = state.totals_draft[0], state.frames
    row = totals.rows
    if row == len(frames.sequences):
        return OUT_OF_ROWS
    status = process_request(state) if packet.direction == TO_BROKER else process_response(state, at)
    if status != DONE:
        return status
    frames.connections[row] = packet.flow
    frames.directions[row] = _DIRECTIONS[packet.direction]
    frames.sequences[row] = totals.next_sequence
    frames.captured_at[row] = stream.captured_at
    frames.positions[row] = stream.position
    frames.starts[row] = stream.start
    frames.lengths[row] = stream.filled
    frames.true_lengths[row] = stream.size
    totals.rows += 1
    totals.next_sequence += 1
    flow.framed += PREFIX + stream.filled
    flow.has_new_frames = True
    stream.size, stream.prefix_length, stream.filled, stream.passed = UNSET, 0, 0, 0
    return DONE
