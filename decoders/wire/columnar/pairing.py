"""Compiled: a complete frame of an offloaded flow, paired: requests in flight, and their responses."""

from __future__ import annotations

from typing import Any, Final

from decoders.codec.columnar.acknowledgement import UNDECIDED, expects_response
from decoders.codec.columnar.head import REQUEST_LEAD
from decoders.codec.columnar.memory import int16, int32, wide
from decoders.compilation import inlined
from decoders.frame.record import NO_RECORD, Flag, Kind, Pairing
from decoders.protocol import API_VERSIONS, SASL_HANDSHAKE
from decoders.wire.columnar.fast_path import DONE, OUT_OF_SLOTS, SLOW_PATH, FastPathState
from decoders.wire.columnar.flows import TO_CLIENT, UNSET
from decoders.wire.columnar.frames import FrameColumns
from decoders.wire.columnar.in_flight import slot_of
from decoders.wire.columnar.sequence_numbers import distance
from decoders.wire.pairing import Turn

RESPONSE_HEADER: Final = 4
"""Bytes of the shortest response header: a correlation ID."""
_NOT_FOUND: Final = -1
"""The response is not the one that is due, or no request is known for it."""
_REQUEST, _RESPONSE = int(Kind.REQUEST), int(Kind.RESPONSE)
_NO_FLAG, _SETTLED, _INFORMED = int(Flag.NONE), int(Flag.SETTLED), int(Flag.INFORMED)
_OF_CLIENT, _OF_BROKER, _OF_NOBODY = int(Turn.CLIENT), int(Turn.BROKER), int(Turn.UNKNOWN)
_MATCHED, _NOT_PAIRED = int(Pairing.MATCHED), int(Pairing.NONE)


@inlined
def process_request(state: FastPathState) -> Any:
    """Process a complete request. Returns DONE, or why that is not possible."""
    data, stream = state.data, state.stream_draft[0]
    row, frames, start = state.totals_draft[0].rows, state.frames, stream.start
    if stream.filled < REQUEST_LEAD:
        return SLOW_PATH
    api_key, api_version = wide(int16(data, start)), wide(int16(data, start + 2))
    expected = expects_response(data, start, start + stream.filled, state.layouts)
    if api_key == SASL_HANDSHAKE or expected == UNDECIDED:
        return SLOW_PATH
    frames.kinds[row] = _REQUEST
    frames.flags[row] = _request_flags(state)
    flow = state.flow_draft[0]
    flow.turn = _OF_BROKER if flow.turn == _OF_CLIENT else _OF_NOBODY
    _write_pairing(frames, row, _NOT_PAIRED, NO_RECORD, -1, -1)
    return _add_in_flight(state, api_key, api_version, wide(int32(data, start + 4))) if expected else DONE


@inlined
def process_response(state: FastPathState, at: Any) -> Any:
    """Process a complete response, which ends at `at` of the data. Returns DONE or SLOW_PATH."""
    packet, flow, stream = state.packet[0], state.flow_draft[0], state.stream_draft[0]
    row, frames = state.totals_draft[0].rows, state.frames
    if stream.filled < RESPONSE_HEADER:
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
    flow, stream = state.flow_draft[0], state.stream_draft[0]
    responses = state.streams[state.packet[0].flow, TO_CLIENT]
    beyond = distance(stream.acknowledgment, responses.next_sequence)
    if flow.api_versions_end == UNSET or responses.next + beyond < flow.api_versions_end:
        flow.awaited_alone = False
        return _NO_FLAG
    if stream.captured_at >= flow.api_versions_at + state.limits[0].settling_time:
        return _SETTLED
    if beyond >= 0 and flow.turn == _OF_CLIENT and flow.awaited_alone:
        return _INFORMED
    return _NO_FLAG


@inlined
def _add_in_flight(state: FastPathState, api_key: Any, api_version: Any, correlation_id: Any) -> Any:
    """Add the current request to those in flight."""
    flow, in_flight = state.flow_draft[0], state.in_flight
    captured_at = state.stream_draft[0].captured_at
    oldest = captured_at - state.limits[0].max_age
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
        flow.ids_repeat = _is_used(flow, in_flight, correlation_id)
    request = in_flight[slot_of(flow, flow.first_in_flight + flow.in_flight)]
    request.sequence = state.totals_draft[0].next_sequence
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
    flow, in_flight = state.flow_draft[0], state.in_flight
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
