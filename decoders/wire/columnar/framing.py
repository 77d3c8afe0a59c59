"""Compiled: the bytes of an offloaded flow → frames, paired.

`read_records` passes on the plaintext of the TLS records that a packet completes; all other bytes come as
they are. `cut_frames` and `skip_hole` assemble frames. A complete request is added to those in flight, and a
complete response is paired with the request that it belongs to.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from decoders.codec.columnar.acknowledgement import UNDECIDED, expects_response
from decoders.compilation import inlined, outlined
from decoders.frame.record import NO_RECORD, Direction, Flag, Kind, Pairing
from decoders.memory import copy_bytes, int16, int32, wide
from decoders.protocol import API_VERSIONS, REQUEST_LEAD, RESPONSE_LEAD, SASL_HANDSHAKE
from decoders.tls.records import ContentType
from decoders.wire.columnar.fast_path_state import (
    DONE,
    OUT_OF_BYTES,
    OUT_OF_ROWS,
    OUT_OF_SLOTS,
    SLOW_PATH,
    FastPathState,
)
from decoders.wire.columnar.flows import TO_BROKER, TO_CLIENT, UNSET, slot_of
from decoders.wire.columnar.frames import FrameColumns
from decoders.wire.columnar.segments import distance
from decoders.wire.columnar.tls_window import NO_STREAM
from decoders.wire.framing import PREFIX
from decoders.wire.pairing import COMPARED, MAX_AGE, SETTLING_TIME, Turn
from decoders.wire.record_stream import MAX_PIECES_AHEAD

_MIN_CAPACITY: Final = 256
_DIRECTIONS = (int(Direction.TO_BROKER), int(Direction.TO_CLIENT))
_NOT_FOUND: Final = -1
"""The response is not the next one, or no request is known for it."""
_REQUEST, _RESPONSE = int(Kind.REQUEST), int(Kind.RESPONSE)
_NO_FLAG, _SETTLED, _INFORMED = int(Flag.NONE), int(Flag.SETTLED), int(Flag.INFORMED)
_OF_CLIENT, _OF_BROKER, _OF_NOBODY = int(Turn.CLIENT), int(Turn.BROKER), int(Turn.UNKNOWN)
_MATCHED, _NOT_PAIRED = int(Pairing.MATCHED), int(Pairing.NONE)
_APPLICATION_DATA = int(ContentType.APPLICATION_DATA)


@inlined
def _flow(state: FastPathState) -> Any:
    """Return the flow of the packet being processed."""
    return state.flows[state.packet[0].flow]


@inlined
def _stream(state: FastPathState) -> Any:
    """Return the stream of that flow in the packet's direction."""
    return state.streams[state.packet[0].flow, state.packet[0].direction]


@inlined
def cut_frames(state: FastPathState, at: Any, end: Any) -> Any:
    """Cut the bytes from `at` to `end` of the data into frames. Returns DONE, or why that is not possible."""
    stream = _stream(state)
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
    flow, stream = _flow(state), _stream(state)
    wanted = stream.size - stream.passed
    if size > wanted:
        return SLOW_PATH
    stream.passed += size
    flow.lost += size
    return _finish_frame(state, at + size) if size == wanted else DONE


@inlined
def _read_prefix(state: FastPathState, at: Any, end: Any) -> Any:
    """Read the bytes of a length prefix. Returns the offset behind them, -1 for an unusual size."""
    packet, stream = state.packet[0], _stream(state)
    if stream.prefix_length == 0:
        stream.captured_at, stream.position = packet.captured_at, packet.position
        stream.acknowledgment = packet.acknowledgment
        stream.prefix = 0
    while at < end and stream.prefix_length < PREFIX:
        stream.prefix = stream.prefix << 8 | np.int64(state.data[at])
        stream.prefix_length += 1
        at += 1
    if stream.prefix_length == PREFIX:
        shortest = REQUEST_LEAD if packet.direction == TO_BROKER else RESPONSE_LEAD
        if stream.prefix < shortest or stream.prefix > state.limits[0].max_frame:
            return -1
        stream.size, stream.capacity = stream.prefix, 0
    return at


@inlined
def _add_piece(state: FastPathState, at: Any, end: Any) -> Any:
    """Add bytes to the frame under assembly. Returns the offset behind them, -1 if there is no room."""
    data, stream, totals = state.data, _stream(state), state.totals[0]
    piece = min(stream.size - stream.passed, end - at)
    if stream.filled < stream.passed:
        _flow(state).after_hole += piece
        stream.passed += piece
        return at + piece
    if piece == stream.size:
        stream.start = at
    elif _flow(state).is_tls and stream.filled in (0, at - stream.start):
        # The plaintext of successive records is contiguous, so the frame is not copied.
        stream.start, stream.capacity = at - stream.filled, stream.filled + piece
    else:
        if stream.filled + piece > stream.capacity:
            capacity = min(stream.size, max(_MIN_CAPACITY, 2 * (stream.filled + piece)))
            # The latest frame under assembly grows in place.
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
    packet, flow, stream = state.packet[0], _flow(state), _stream(state)
    totals, frames = state.totals[0], state.frames
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


@inlined
def process_request(state: FastPathState) -> Any:
    """Process a complete request. Returns DONE, or why that is not possible."""
    data, stream = state.data, _stream(state)
    row, frames, start = state.totals[0].rows, state.frames, stream.start
    if stream.filled < REQUEST_LEAD:
        return SLOW_PATH
    api_key, api_version = wide(int16(data, start)), wide(int16(data, start + 2))
    expected = expects_response(data, start, start + stream.filled, state.layouts)
    if api_key == SASL_HANDSHAKE or expected == UNDECIDED:
        return SLOW_PATH
    frames.kinds[row] = _REQUEST
    frames.flags[row] = _request_flags(state)
    flow = _flow(state)
    flow.turn = _OF_BROKER if flow.turn == _OF_CLIENT else _OF_NOBODY
    _write_pairing(frames, row, _NOT_PAIRED, NO_RECORD, -1, -1)
    return _add_in_flight(state, api_key, api_version, wide(int32(data, start + 4))) if expected else DONE


@inlined
def process_response(state: FastPathState, at: Any) -> Any:
    """Process a complete response, which ends at `at` of the data. Returns DONE or SLOW_PATH."""
    packet, flow, stream = state.packet[0], _flow(state), _stream(state)
    row, frames = state.totals[0].rows, state.frames
    if stream.filled < RESPONSE_LEAD:
        return SLOW_PATH
    number = _find_request(state, wide(int32(state.data, stream.start)))
    if number == _NOT_FOUND:
        return SLOW_PATH
    frames.kinds[row] = _RESPONSE
    frames.flags[row] = _NO_FLAG
    request = state.in_flight[slot_of(flow, number)]
    _write_pairing(frames, row, _MATCHED, request.sequence, request.api_key, request.api_version)
    if request.api_key == API_VERSIONS:
        flow.api_versions_end = packet.record_end if flow.is_tls else stream.next + at - packet.begin
        flow.api_versions_at = packet.captured_at
        flow.awaited_alone = flow.turn == _OF_BROKER
    if not flow.in_order:
        flow.in_order = request.sequence > flow.last_before_loss
    flow.in_flight -= number + 1 - flow.first_in_flight
    flow.first_in_flight = number + 1
    if flow.in_order and flow.in_flight == 0:
        flow.turn = _OF_CLIENT
    return DONE


@inlined
def _request_flags(state: FastPathState) -> Any:
    """Return the flags of the current request: whether the client had the latest ApiVersions response."""
    flow, stream = _flow(state), _stream(state)
    responses = state.streams[state.packet[0].flow, TO_CLIENT]
    beyond = distance(stream.acknowledgment, responses.next_sequence)
    if flow.api_versions_end == UNSET or responses.next + beyond < flow.api_versions_end:
        flow.awaited_alone = False
        return _NO_FLAG
    if stream.captured_at >= flow.api_versions_at + SETTLING_TIME:
        return _SETTLED
    if beyond >= 0 and flow.turn == _OF_CLIENT and flow.awaited_alone:
        return _INFORMED
    return _NO_FLAG


@inlined
def _add_in_flight(state: FastPathState, api_key: Any, api_version: Any, correlation_id: Any) -> Any:
    """Add the current request to those in flight."""
    flow, in_flight = _flow(state), state.in_flight
    captured_at = _stream(state).captured_at
    oldest = captured_at - MAX_AGE
    if flow.in_flight and in_flight[slot_of(flow, flow.first_in_flight)].captured_at < oldest:
        return SLOW_PATH
    if flow.in_flight == state.limits[0].max_in_flight:
        return SLOW_PATH
    if flow.in_flight == flow.ring_size - 1:
        return OUT_OF_SLOTS
    # Most clients count their correlation IDs upwards, so the requests in flight need not be searched.
    if correlation_id > flow.highest_id:
        flow.highest_id = correlation_id
    elif not flow.ids_repeat:
        flow.ids_repeat = flow.in_flight >= COMPARED or _is_used(flow, in_flight, correlation_id)
    request = in_flight[slot_of(flow, flow.first_in_flight + flow.in_flight)]
    request.sequence = state.totals[0].next_sequence
    request.correlation_id = correlation_id
    request.api_key = api_key
    request.api_version = api_version
    request.captured_at = captured_at
    flow.in_flight += 1
    return DONE


@inlined
def _is_used(flow: Any, in_flight: Any, correlation_id: Any) -> Any:
    """Whether the latest request, or one in flight, has this correlation ID."""
    first, end = flow.first_in_flight, flow.first_in_flight + flow.in_flight
    for number in range(first if first < end else first - 1, end):
        request = in_flight[slot_of(flow, number)]
        if request.correlation_id == correlation_id and request.sequence != NO_RECORD:
            return True
    return False


@inlined
def _find_request(state: FastPathState, correlation_id: Any) -> Any:
    """Return the slot number of the request that a response belongs to, or _NOT_FOUND."""
    flow, in_flight = _flow(state), state.in_flight
    first, end = flow.first_in_flight, flow.first_in_flight + flow.in_flight
    if flow.in_order:
        is_first = first < end and in_flight[slot_of(flow, first)].correlation_id == correlation_id
        return first if is_first else _NOT_FOUND
    if not flow.ids_repeat:
        for number in range(first, end):
            if in_flight[slot_of(flow, number)].correlation_id == correlation_id:
                return number
    return _NOT_FOUND


@inlined
def _write_pairing(  # noqa: PLR0917 - a row's columns
    frames: FrameColumns, row: Any, pairing: Any, sequence: Any, api_key: Any, api_version: Any
) -> None:
    frames.pairings[row] = pairing
    frames.paired_sequences[row] = sequence
    frames.paired_api_keys[row] = api_key
    frames.paired_api_versions[row] = api_version


@inlined
def read_records(state: FastPathState) -> Any:
    """Process the bytes that are next in their direction. Returns DONE, or why that is not possible."""
    packet, window, stream = state.packet[0], state.tls, _stream(state)
    place = window.rows[packet.row]
    if place.stream == NO_STREAM:
        return SLOW_PATH
    ahead = window.streams[place.stream]
    begin = place.end - place.size
    is_expected = ahead.flow == packet.flow and ahead.base + begin == stream.next
    if not is_expected or place.end > ahead.limit:
        return SLOW_PATH
    last = ahead.first_record + ahead.records
    while ahead.next_record < last and window.records[ahead.next_record].end <= begin:
        ahead.next_record += 1
    if ahead.next_record < last and window.records[ahead.next_record].end <= place.end:
        return _read_complete(state)
    if stream.pieces >= MAX_PIECES_AHEAD:
        return SLOW_PATH
    stream.held += place.size
    stream.pieces += 1
    return DONE


@outlined
def _read_complete(state: FastPathState) -> Any:
    """Process the records that are complete."""
    packet, window = state.packet[0], state.tls
    flow, stream = _flow(state), _stream(state)
    place = window.rows[packet.row]
    ahead = window.streams[place.stream]
    last = ahead.first_record + ahead.records
    number, piece = ahead.next_record, ahead.next_piece
    while number < last and window.records[number].end <= place.end:
        record = window.records[number]
        begin, end = record.plain, _content_end(state, number)
        if end < 0:
            return SLOW_PATH
        packet.record_end = ahead.base + record.end
        done = begin
        while done < end:
            source = window.pieces[piece]
            stop = min(end, begin + source.end - record.content)
            if stop > done:
                packet.captured_at, packet.position = source.captured_at, source.position
                packet.acknowledgment = source.acknowledgment
                status = cut_frames(state, done, stop)
                if status != DONE:
                    return status
                done = stop
            if done < end:
                piece += 1
        flow.tls += record.end - record.begin - (end - begin)
        stream.number += 1
        stream.held = place.end - record.end
        stream.pieces = 1 if stream.held else 0
        number += 1
    # Skip only pieces of complete records: the packet may have to be processed again.
    first = window.records[ahead.next_record]
    while window.pieces[ahead.next_piece].end <= first.begin:
        ahead.next_piece += 1
    return DONE


@inlined
def _content_end(state: FastPathState, number: Any) -> Any:
    """Return where the application data of a record ends, -1 if it is not decrypted or of another type."""
    record = state.tls.records[number]
    begin, end = record.plain, record.plain + record.size
    if not record.opened:
        return -1
    if not _flow(state).hides_type:
        return end if record.type == _APPLICATION_DATA else -1
    while end > begin and state.data[end - 1] == 0:
        end -= 1
    is_data = end > begin and state.data[end - 1] == _APPLICATION_DATA
    return end - 1 if is_data and record.type == _APPLICATION_DATA else -1
