"""The compiled entry of the fast path: a batch of segments, packet by packet."""

from __future__ import annotations

from typing import Any

from decoders.codec.columnar.memory import int16, int32, wide
from decoders.compilation import compiled, inlined
from decoders.wire.assembly import PREFIX
from decoders.wire.columnar.fast_path import CLOSES, DONE, SLOW_PATH, FastPathState
from decoders.wire.columnar.flows import TO_BROKER, TO_CLIENT, UNSET
from decoders.wire.columnar.framing import cut_frames, skip_hole
from decoders.wire.columnar.lifecycle import OPENS_OR_CLOSES, close, open_or_close, process_without_flow
from decoders.wire.columnar.sequence_numbers import distance
from decoders.wire.columnar.socket_pairs import NO_SEGMENT, UNWATCHED
from decoders.wire.columnar.tls_framing import read_records
from decoders.wire.frame_detector import SHORTEST_REQUEST
from decoders.wire.framing import OPENING
from decoders.wire.segment import TcpFlag
from decoders.wire.stream import PIECE_COST, SEQUENCE_SPACE

_ACK = int(TcpFlag.ACK)


@compiled(None)
def run_fast_path(state: FastPathState, row: int) -> tuple[int, int]:
    """Process packets from a row on. Returns why it stopped (DONE if all are processed), and at which row."""
    totals, packet = state.totals[0], state.packet[0]
    while row < totals.end:
        pair, captured_at = state.pairs[row], state.captured_at[row]
        status = DONE
        if pair != NO_SEGMENT:
            is_idle = captured_at - totals.earliest > state.limits[0].idle_after
            if is_idle or captured_at > totals.waits_until:
                return SLOW_PATH, row
            totals.earliest = min(totals.earliest, captured_at)
            if pair == UNWATCHED:
                _skip_other_port(state, row)
            else:
                packet.row, packet.flow = row, state.flow_of_pair[pair] if pair >= 0 else -1
                if packet.flow < 0:
                    status = process_without_flow(state, row, pair)
                elif state.flows[packet.flow].offloaded:
                    status = _process_segment(state, row)
                else:
                    status = SLOW_PATH
                if status == CLOSES:
                    close(state, row, pair)
                    status = DONE
        if status != DONE:
            return status, row
        row += 1
    return DONE, row


@inlined
def _process_segment(state: FastPathState, row: int) -> int:
    """Process a segment of an offloaded flow. Returns DONE, or why the packet cannot be processed."""
    segments, totals, packet = state.segments, state.totals[0], state.packet[0]
    flow = state.flows[packet.flow]
    packet.direction = TO_BROKER if segments.forward[row] == flow.lower_is_client else TO_CLIENT
    stream, other = (
        state.streams[packet.flow, packet.direction],
        state.streams[packet.flow, 1 - packet.direction],
    )
    if flow.awaits_syn_ack or segments.flags[row] & OPENS_OR_CLOSES:
        if flow.is_tls:
            return SLOW_PATH
        status = open_or_close(state, row)
        if status != DONE:
            return status
    # The FIN has a sequence number of its own.
    fin = 1 if flow.closer == 1 - packet.direction else 0
    is_ahead = distance(segments.acknowledgments[row], other.next_sequence) > fin
    at, end, missing = segments.starts[row], segments.ends[row], segments.missing[row]
    ahead = distance(segments.sequences[row], stream.next_sequence)
    repeated = max(0, min(end - at, -ahead))
    if (segments.flags[row] & _ACK and is_ahead) or (at < end and ahead > 0) or (missing and ahead):
        return SLOW_PATH
    if repeated < end - at or missing:
        if flow.closer == packet.direction:
            return SLOW_PATH
        status = _process_payload(state, at + repeated, end)
        if status != DONE:
            return status
    flow.last_seen_at, flow.last_position = state.captured_at[row], state.positions[row]
    flow.last_packet = totals.packets + row
    flow.captured += end - at
    flow.duplicate += repeated
    port = state.ports[flow.port]
    port.captured += end - at
    port.duplicate += repeated
    totals.tcp += 1
    return DONE


@inlined
def _process_payload(state: FastPathState, at: int, end: int) -> int:
    """Process the bytes that are next in their direction. Returns DONE, or why that is not possible."""
    packet = state.packet[0]
    flow, stream = state.flows[packet.flow], state.streams[packet.flow, packet.direction]
    state.flow_draft[0], state.stream_draft[0] = flow, stream
    state.totals_draft[0] = state.totals[0]
    packet.begin = at
    packet.captured_at, packet.position = state.captured_at[packet.row], state.positions[packet.row]
    packet.acknowledgment = state.segments.acknowledgments[packet.row]
    missing = state.segments.missing[packet.row]
    if flow.is_opening and not _opens(state, at, end):
        return SLOW_PATH
    state.flow_draft[0].is_opening = False
    if flow.is_opaque:
        status = _skip_opaque(state, end - at, missing)
    elif flow.is_tls:
        status = read_records(state)
    else:
        status = cut_frames(state, at, end)
        if status == DONE and missing:
            status = skip_hole(state, end, missing)
    if status != DONE:
        return status
    limits = state.limits[0]
    held = _held(state.flow_draft[0], state.stream_draft[0], limits.in_flight_cost)
    held -= _held(flow, stream, limits.in_flight_cost)
    if state.totals[0].held + held > limits.max_held:
        return SLOW_PATH
    _count_by_port(state)
    state.flows[packet.flow] = state.flow_draft[0]
    state.streams[packet.flow, packet.direction] = state.stream_draft[0]
    state.totals[0] = state.totals_draft[0]
    state.totals[0].held += held
    flow.held += held
    stream.next += end - at + missing
    stream.next_sequence = (stream.next_sequence + end - at + missing) & (SEQUENCE_SPACE - 1)
    return DONE


@inlined
def _opens(state: FastPathState, at: int, end: int) -> Any:
    """Whether the first bytes that are sent on a connection may be a request."""
    if state.packet[0].direction == TO_CLIENT or end - at < OPENING:
        return False
    size, api_key = wide(int32(state.data, at)), wide(int16(state.data, at + PREFIX))
    return SHORTEST_REQUEST <= size <= state.limits[0].max_frame and state.known_apis[api_key & 0xFFFF]


@inlined
def _skip_opaque(state: FastPathState, size: int, missing: int) -> int:
    """Count bytes that are not Kafka, or are excluded, or cannot be decrypted."""
    flow = state.flow_draft[0]
    if flow.is_excluded:
        flow.excluded += size
    elif flow.is_encrypted:
        flow.encrypted += size
    else:
        flow.opaque += size
    flow.lost += missing
    return DONE


@inlined
def _count_by_port(state: FastPathState) -> None:
    """Count for the flow's port what the draft of the flow has counted."""
    flow, draft = state.flows[state.packet[0].flow], state.flow_draft[0]
    port = state.ports[flow.port]
    port.framed += draft.framed - flow.framed
    port.lost += draft.lost - flow.lost
    port.after_hole += draft.after_hole - flow.after_hole
    port.opaque += draft.opaque - flow.opaque
    port.excluded += draft.excluded - flow.excluded
    port.encrypted += draft.encrypted - flow.encrypted
    port.tls += draft.tls - flow.tls


@inlined
def _held(flow: Any, stream: Any, in_flight_cost: int) -> Any:
    """Return how many bytes the frame and the TLS record of one direction and the requests in flight hold."""
    record = stream.held + PIECE_COST * stream.pieces
    frame = stream.prefix_length if stream.size == UNSET else PREFIX + stream.filled
    return in_flight_cost * flow.in_flight + record + frame


@inlined
def _skip_other_port(state: FastPathState, row: int) -> None:
    """Count a segment between two ports that are not watched."""
    totals, payload = state.totals[0], state.segments.ends[row] - state.segments.starts[row]
    totals.tcp += 1
    totals.other_port += payload
