"""Compiled: the fast path processes the segments of a batch, packet by packet.

`run_fast_path` stops at a packet that it cannot process, and says why. A SYN takes a flow that was made
ready, and the end of a connection leaves its flow. Both add a row to the table of changes, which the caller
passes to `LazyConnections.note` before it does anything else with the tracker.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from decoders.compilation import compiled, inlined
from decoders.frame.record import NO_RECORD, Closing
from decoders.memory import int16, int32, wide
from decoders.protocol import REQUEST_LEAD
from decoders.retention import KEPT_FOR
from decoders.wire.chunk import PIECE_COST
from decoders.wire.columnar.fast_path_state import CLOSES, DONE, OUT_OF_FLOWS, SLOW_PATH, FastPathState
from decoders.wire.columnar.flow_table import CLOSED, UNKNOWN_SYN
from decoders.wire.columnar.flows import NO_SYN, NOBODY, TO_BROKER, TO_CLIENT, UNSET, slot_of
from decoders.wire.columnar.framing import cut_frames, read_records, skip_hole
from decoders.wire.columnar.segments import NO_SEGMENT, UNWATCHED, distance
from decoders.wire.eviction import IDLE_INTERVAL, Standing
from decoders.wire.framing import OPENING_SIZE, PREFIX
from decoders.wire.pairing import IN_FLIGHT_COST
from decoders.wire.segment import TcpFlag
from decoders.wire.stream import MAX_AHEAD, NOTHING_HELD, SEQUENCE_SPACE

_SYN, _ACK = int(TcpFlag.SYN), int(TcpFlag.ACK)
_FIN, _RST = int(TcpFlag.FIN), int(TcpFlag.RST)
_OPENS_OR_CLOSES: Final = int(TcpFlag.SYN | TcpFlag.FIN | TcpFlag.RST)
_SEQUENCE_BITS: Final = SEQUENCE_SPACE.bit_length() - 1
_ANSWERED, _SILENT, _SPEAKING = int(Standing.ANSWERED), int(Standing.SILENT), int(Standing.SPEAKING)
_BY_FIN, _BY_RST = int(Closing.FIN), int(Closing.RST)


@compiled(None)
def run_fast_path(state: FastPathState, row: int) -> tuple[int, int]:
    """Process packets from a row on. Returns why it stopped (DONE if all are processed), and at which row."""
    totals, packet = state.totals[0], state.packet[0]
    while row < totals.end:
        pair, captured_at = state.pairs[row], state.captured_at[row]
        status = DONE
        if pair != NO_SEGMENT:
            if captured_at > totals.waits_until or _may_be_idle(state, captured_at):
                return SLOW_PATH, row
            totals.earliest = min(totals.earliest, captured_at)
            if pair == UNWATCHED:
                _skip_other_port(state, row)
            else:
                packet.row, packet.flow = row, state.flow_of_pair[pair]
                if packet.flow < 0:
                    status = _process_without_flow(state, row, pair)
                elif state.flows[packet.flow].offloaded:
                    status = _process_segment(state, row)
                else:
                    status = SLOW_PATH
                if status == CLOSES:
                    _close(state, row, pair)
                    status = DONE
        if status != DONE:
            return status, row
        row += 1
    return DONE, row


@inlined
def _may_be_idle(state: FastPathState, captured_at: Any) -> Any:
    """Whether a connection may have been silent for long, if idle ones are to be looked for."""
    totals = state.totals[0]
    if 0 <= captured_at - totals.looked_at < IDLE_INTERVAL:
        return False
    if captured_at - min(totals.earliest, totals.oldest) > KEPT_FOR:
        return True
    totals.looked_at = captured_at
    return False


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
    is_proven = flow.standing != _ANSWERED or packet.direction == TO_CLIENT or _is_proof(state, row)
    if flow.awaits_syn_ack or segments.flags[row] & _OPENS_OR_CLOSES:
        holds = min(stream.first_held, other.first_held) != NOTHING_HELD
        if flow.is_tls or holds or not is_proven:
            return SLOW_PATH
        status = _open_or_close(state, row)
        if status != DONE:
            return status
    # The FIN has a sequence number of its own.
    fin = 1 if flow.closer == 1 - packet.direction else 0
    acknowledged = distance(segments.acknowledgments[row], other.next_sequence)
    at, end, missing = segments.starts[row], segments.ends[row], segments.missing[row]
    ahead = distance(segments.sequences[row], stream.next_sequence)
    repeated = max(0, min(end - at, -ahead))
    has_number = segments.flags[row] & _ACK
    is_odd = acknowledged > fin or acknowledged < -MAX_AHEAD if has_number else at < end or missing
    is_odd = is_odd or (at < end and ahead > 0) or (missing and ahead)
    # What is held ahead of others is in the `Connection`.
    is_odd = is_odd or stream.next + end - at - repeated + missing >= stream.first_held
    is_odd = is_odd or (has_number and state.captured_at[row] >= other.doubted_at)
    if is_odd or not is_proven:
        return SLOW_PATH
    if repeated < end - at or missing:
        if flow.closer == packet.direction:
            return SLOW_PATH
        status = _process_payload(state, at + repeated, end)
        if status != DONE:
            return status
    if flow.standing != _SPEAKING:
        _note_standing(state, has_bytes=at < end or missing)
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
def _is_proof(state: FastPathState, row: int) -> Any:
    """Whether the client's first segment behind the SYN-ACK acknowledges all that the broker sent."""
    segments, packet = state.segments, state.packet[0]
    flow, responses = state.flows[packet.flow], state.streams[packet.flow, TO_CLIENT]
    is_next = distance(segments.acknowledgments[row], responses.next_sequence) == 0
    return flow.initial_sequence == NO_SYN or (segments.flags[row] & _ACK and is_next)


@inlined
def _note_standing(state: FastPathState, has_bytes: Any) -> None:
    """Note how far a flow's connection has come with a segment."""
    packet, flow = state.packet[0], state.flows[state.packet[0].flow]
    if packet.direction == TO_CLIENT:
        flow.standing = max(flow.standing, _ANSWERED)
    elif flow.standing >= _ANSWERED:
        state.totals[0].half_open -= flow.standing == _ANSWERED
        flow.standing = _SPEAKING if has_bytes else _SILENT


@inlined
def _process_payload(state: FastPathState, at: int, end: int) -> int:
    """Process the bytes that are next in their direction. Returns DONE, or why that is not possible."""
    packet, totals = state.packet[0], state.totals[0]
    flow, stream = state.flows[packet.flow], state.streams[packet.flow, packet.direction]
    if flow.is_opening and not _opens(state, at, end):
        return SLOW_PATH
    state.flow_before[0], state.stream_before[0], state.totals_before[0] = flow, stream, totals
    flow.is_opening = False
    packet.begin = at
    packet.captured_at, packet.position = state.captured_at[packet.row], state.positions[packet.row]
    packet.acknowledgment = state.segments.acknowledgments[packet.row]
    missing = state.segments.missing[packet.row]
    if flow.is_opaque:
        status = _skip_opaque(flow, end - at, missing)
    elif flow.is_tls:
        status = read_records(state)
    else:
        status = cut_frames(state, at, end)
        if status == DONE and missing:
            status = skip_hole(state, end, missing)
    held = _held(flow, stream, state) - _held(state.flow_before[0], state.stream_before[0], state)
    if status == DONE and totals.held + held > state.limits[0].max_held:
        status = SLOW_PATH
    if status != DONE:
        state.flows[packet.flow] = state.flow_before[0]
        state.streams[packet.flow, packet.direction] = state.stream_before[0]
        state.totals[0] = state.totals_before[0]
        return status
    _count_by_port(state)
    totals.held += held
    flow.held += held
    stream.next += end - at + missing
    stream.next_sequence = (stream.next_sequence + end - at + missing) & (SEQUENCE_SPACE - 1)
    return DONE


@inlined
def _opens(state: FastPathState, at: int, end: int) -> Any:
    """Whether the first bytes that are sent on a connection may be a request."""
    if state.packet[0].direction == TO_CLIENT or end - at < OPENING_SIZE:
        return False
    size, api_key = wide(int32(state.data, at)), wide(int16(state.data, at + PREFIX))
    return REQUEST_LEAD <= size <= state.limits[0].max_frame and state.known_apis[api_key & 0xFFFF]


@inlined
def _skip_opaque(flow: Any, size: int, missing: int) -> int:
    """Count bytes that are not Kafka, or are excluded, or cannot be decrypted."""
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
    """Add what the packet's payload added to the flow's counts to those of its port."""
    flow, before = state.flows[state.packet[0].flow], state.flow_before[0]
    port = state.ports[flow.port]
    port.framed += flow.framed - before.framed
    port.lost += flow.lost - before.lost
    port.after_hole += flow.after_hole - before.after_hole
    port.opaque += flow.opaque - before.opaque
    port.excluded += flow.excluded - before.excluded
    port.encrypted += flow.encrypted - before.encrypted
    port.tls += flow.tls - before.tls


@inlined
def _held(flow: Any, stream: Any, state: FastPathState) -> Any:
    """Return how many bytes the frame and the TLS record of one direction and the requests in flight hold."""
    record = stream.held + PIECE_COST * stream.pieces
    frame = stream.prefix_length if stream.size == UNSET else PREFIX + stream.filled
    return IN_FLIGHT_COST * flow.in_flight + record + frame


@inlined
def _skip_other_port(state: FastPathState, row: int) -> None:
    """Count a segment between two ports that are not watched."""
    totals, payload = state.totals[0], state.segments.ends[row] - state.segments.starts[row]
    totals.tcp += 1
    totals.other_port += payload


@inlined
def _process_without_flow(state: FastPathState, row: int, pair: int) -> int:
    """Process a segment of a pair that has no flow. Returns DONE, OUT_OF_FLOWS or SLOW_PATH."""
    flags = state.segments.flags[row]
    if flags & (_OPENS_OR_CLOSES | _ACK) == _SYN:
        return _open(state, row, pair)
    return _skip_after_close(state, row) if state.packet[0].flow == CLOSED else SLOW_PATH


@inlined
def _open(state: FastPathState, row: int, pair: int) -> int:
    """Open a connection with the client's SYN, unless the latest one of the pair may have begun with it."""
    segments, totals = state.segments, state.totals[0]
    sockets, forward = segments.sockets[row], segments.forward[row]
    port = sockets[4] & 0xFFFF if forward else sockets[4] >> 16 & 0xFFFF
    if segments.starts[row] < segments.ends[row] or segments.missing[row] or not state.watched[port]:
        return SLOW_PATH
    is_full = totals.open >= totals.max_open or totals.half_open >= totals.max_half_open
    if is_full or not _is_new(state, row, pair):
        return SLOW_PATH
    if totals.ready == 0:
        return OUT_OF_FLOWS
    totals.ready -= 1
    number, ring = state.ready[totals.ready].flow, state.ready[totals.ready].ring
    state.flows[number] = state.opened_flow[0]
    flow = state.flows[number]
    flow.ring, flow.lower_is_client, flow.port = ring, forward, state.port_rows[port]
    flow.initial_sequence = segments.sequences[row]
    flow.last_seen_at, flow.last_position = state.captured_at[row], state.positions[row]
    flow.last_packet = totals.packets + row
    slot = state.in_flight[slot_of(flow, -1)]
    slot.sequence, slot.correlation_id, slot.captured_at = NO_RECORD, 0, 0
    slot.api_key, slot.api_version = 0, 0
    for direction in (TO_BROKER, TO_CLIENT):
        state.streams[number, direction] = state.opened_stream[0]
    state.streams[number, TO_BROKER].next_sequence = (segments.sequences[row] + 1) & (SEQUENCE_SPACE - 1)
    state.flow_of_pair[pair] = number
    totals.open += 1
    totals.half_open += 1
    totals.tcp += 1
    _note_change(state, row, pair, number, 0)
    return DONE


@inlined
def _is_new(state: FastPathState, row: int, pair: int) -> Any:
    """Whether a SYN differs from that of the connection of the pair that is remembered as closed."""
    latest, forward = state.latest_syn_of_pair[pair], state.segments.forward[row]
    is_of_client = latest >= 0 and (latest >> _SEQUENCE_BITS != 0) == forward
    is_other = latest & (SEQUENCE_SPACE - 1) != state.segments.sequences[row]
    return latest == NO_SYN or (is_of_client and is_other)


@inlined
def _close(state: FastPathState, row: int, pair: int) -> None:
    """Close the connection that a packet ends, of which nothing else is left to process."""
    totals, packet = state.totals[0], state.packet[0]
    flow = state.flows[packet.flow]
    _note_change(state, row, pair, packet.flow, _BY_RST if state.segments.flags[row] & _RST else _BY_FIN)
    totals.held -= flow.held
    totals.open -= 1
    totals.half_open -= flow.standing < _SILENT
    totals.tcp += 1
    flow.offloaded = False
    state.flow_of_pair[pair] = CLOSED
    state.closer_of_pair[pair] = totals.packets + row
    latest = flow.initial_sequence | np.int64(flow.lower_is_client) << _SEQUENCE_BITS
    state.latest_syn_of_pair[pair] = UNKNOWN_SYN if flow.initial_sequence == NO_SYN else latest


@inlined
def _note_change(state: FastPathState, row: int, pair: int, flow: int, closing: int) -> None:
    """Add a row to the table of changes, which has room for one of every packet."""
    totals, closer = state.totals[0], state.flows[flow].closer
    change = state.changes[totals.changes]
    change.row, change.pair, change.flow, change.closing = row, pair, flow, closing
    direction = state.packet[0].direction
    change.closer = direction if closer == NOBODY else closer
    change.closed = 1 << direction | (0 if closer == NOBODY else 1 << closer)
    change.sequence = totals.next_sequence
    change.initial_sequence = state.flows[flow].initial_sequence
    totals.next_sequence += 1
    totals.changes += 1


@inlined
def _open_or_close(state: FastPathState, row: int) -> int:
    """Process a segment without payload that opens or closes. Returns DONE, CLOSES or SLOW_PATH.

    It may be the SYN-ACK that responds to the SYN, the FIN of either side, and a RST.
    """
    segments, packet = state.segments, state.packet[0]
    flow, flags = state.flows[packet.flow], segments.flags[row] & (_OPENS_OR_CLOSES | _ACK)
    stream, other = (
        state.streams[packet.flow, packet.direction],
        state.streams[packet.flow, 1 - packet.direction],
    )
    acknowledged = distance(segments.acknowledgments[row], other.next_sequence)
    is_odd = flags & _ACK and acknowledged < -MAX_AHEAD
    if is_odd or segments.starts[row] < segments.ends[row] or segments.missing[row]:
        return SLOW_PATH
    ahead = distance(segments.sequences[row], stream.next_sequence)
    if _repeats_opening(state, flags, ahead, acknowledged):
        return DONE
    if flow.awaits_syn_ack:
        if packet.direction == TO_BROKER or flags != _SYN | _ACK or acknowledged != 0:
            return SLOW_PATH
        flow.awaits_syn_ack = False
        stream.next_sequence = (segments.sequences[row] + 1) & (SEQUENCE_SPACE - 1)
        return DONE
    if flow.closer == NOBODY and flags == _FIN | _ACK and ahead == 0 and acknowledged <= 0:
        flow.closer, flow.closer_had = packet.direction, other.next + acknowledged
        return DONE
    return CLOSES if _is_end(state, flags, ahead, acknowledged) else SLOW_PATH


@inlined
def _repeats_opening(state: FastPathState, flags: Any, ahead: Any, acknowledged: Any) -> Any:
    """Whether a segment repeats the SYN or the SYN-ACK, as kernels do that get no answer."""
    packet, flow = state.packet[0], state.flows[state.packet[0].flow]
    if not flow.is_opening or ahead != -1:
        return False
    if packet.direction == TO_BROKER:
        return flow.awaits_syn_ack and flags == _SYN
    return not flow.awaits_syn_ack and flags == _SYN | _ACK and acknowledged == 0


@inlined
def _is_end(state: FastPathState, flags: Any, ahead: Any, acknowledged: Any) -> Any:
    """Whether a segment ends a connection of which nothing is left to process."""
    packet = state.packet[0]
    flow, streams = state.flows[packet.flow], state.streams[packet.flow]
    for direction in (TO_BROKER, TO_CLIENT):
        if streams[direction].size != UNSET or streams[direction].prefix_length:
            return False
    # The FIN has a sequence number of its own.
    own_fin, other_fin = flow.closer == packet.direction, flow.closer == 1 - packet.direction
    if flow.is_opaque or acknowledged > other_fin:
        return False
    if flags == _FIN | _ACK:
        return other_fin and ahead == 0 and flow.closer_had <= streams[packet.direction].next
    return flags == _RST | _ACK and 0 <= ahead <= own_fin


@inlined
def _skip_after_close(state: FastPathState, row: int) -> int:
    """Count a segment without payload that follows the end of its connection."""
    segments = state.segments
    if segments.flags[row] & _SYN or segments.starts[row] < segments.ends[row] or segments.missing[row]:
        return SLOW_PATH
    state.totals[0].tcp += 1
    return DONE
