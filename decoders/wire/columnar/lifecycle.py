"""Compiled: connections open and close.

A SYN takes a flow that was made ready, and the end of a connection leaves its flow. Each adds a row to the
table of changes, of which the caller makes records before it does anything else with the tracker.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from decoders.compilation import inlined
from decoders.frame.record import NO_RECORD, Closing
from decoders.wire.columnar.fast_path import CLOSES, DONE, OUT_OF_FLOWS, SLOW_PATH, FastPathState
from decoders.wire.columnar.flow_table import CLOSED, UNKNOWN_SYN
from decoders.wire.columnar.flows import NO_SYN, NOBODY, TO_BROKER, TO_CLIENT, UNSET
from decoders.wire.columnar.in_flight import slot_of
from decoders.wire.columnar.sequence_numbers import distance
from decoders.wire.segment import TcpFlag
from decoders.wire.stream import SEQUENCE_SPACE

_SYN, _ACK = int(TcpFlag.SYN), int(TcpFlag.ACK)
_FIN, _RST = int(TcpFlag.FIN), int(TcpFlag.RST)
OPENS_OR_CLOSES: Final = int(TcpFlag.SYN | TcpFlag.FIN | TcpFlag.RST)
_SEQUENCE_BITS: Final = SEQUENCE_SPACE.bit_length() - 1
_BY_FIN, _BY_RST = int(Closing.FIN), int(Closing.RST)


@inlined
def process_without_flow(state: FastPathState, row: int, pair: int) -> int:
    """Process a segment of a pair that has no flow. Returns DONE, OUT_OF_FLOWS or SLOW_PATH."""
    flags = state.segments.flags[row]
    if flags & (OPENS_OR_CLOSES | _ACK) == _SYN and pair >= 0:
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
    if totals.open >= totals.max_open or not _is_new(state, row, pair):
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
    totals.tcp += 1
    _note_change(state, row, pair, number, 0)
    return DONE


@inlined
def _is_new(state: FastPathState, row: int, pair: int) -> Any:
    """Whether a SYN is not that of a connection of the pair that is remembered as closed."""
    latest, forward = state.latest_syn_of_pair[pair], state.segments.forward[row]
    is_of_client = latest >= 0 and (latest >> _SEQUENCE_BITS != 0) == forward
    is_other = latest & (SEQUENCE_SPACE - 1) != state.segments.sequences[row]
    return latest == NO_SYN or (is_of_client and is_other)


@inlined
def close(state: FastPathState, row: int, pair: int) -> None:
    """Close the connection that a packet ends, of which nothing else is left to process."""
    totals, packet = state.totals[0], state.packet[0]
    flow = state.flows[packet.flow]
    _note_change(state, row, pair, packet.flow, _BY_RST if state.segments.flags[row] & _RST else _BY_FIN)
    totals.held -= flow.held
    totals.open -= 1
    totals.tcp += 1
    flow.offloaded = False
    state.flow_of_pair[pair] = CLOSED
    latest = flow.initial_sequence | np.int64(flow.lower_is_client) << _SEQUENCE_BITS
    state.latest_syn_of_pair[pair] = UNKNOWN_SYN if flow.initial_sequence == NO_SYN else latest


@inlined
def _note_change(state: FastPathState, row: int, pair: int, flow: int, closing: int) -> None:
    """Add a row to the table of changes, which has room for one of every packet."""
    totals, closer = state.totals[0], state.flows[flow].closer
    change = state.changes[totals.changes]
    change.row, change.pair, change.flow, change.closing = row, pair, flow, closing
    change.closer = state.packet[0].direction if closer == NOBODY else closer
    change.sequence = totals.next_sequence
    change.initial_sequence = state.flows[flow].initial_sequence
    totals.next_sequence += 1
    totals.changes += 1


@inlined
def open_or_close(state: FastPathState, row: int) -> int:
    """Process what a segment without payload opens or closes. Returns DONE, CLOSES or SLOW_PATH.

    It may be the SYN-ACK that responds to the SYN, the FIN of either side, and a RST.
    """
    segments, packet = state.segments, state.packet[0]
    flow, flags = state.flows[packet.flow], segments.flags[row] & (OPENS_OR_CLOSES | _ACK)
    stream, other = (
        state.streams[packet.flow, packet.direction],
        state.streams[packet.flow, 1 - packet.direction],
    )
    if segments.starts[row] < segments.ends[row] or segments.missing[row]:
        return SLOW_PATH
    acknowledged = distance(segments.acknowledgments[row], other.next_sequence)
    if flow.awaits_syn_ack:
        if packet.direction == TO_BROKER or flags != _SYN | _ACK or acknowledged != 0:
            return SLOW_PATH
        flow.awaits_syn_ack = False
        stream.next_sequence = (segments.sequences[row] + 1) & (SEQUENCE_SPACE - 1)
        return DONE
    ahead = distance(segments.sequences[row], stream.next_sequence)
    if flow.closer == NOBODY and flags == _FIN | _ACK and ahead == 0 and acknowledged <= 0:
        flow.closer, flow.closer_had = packet.direction, other.next + acknowledged
        return DONE
    return CLOSES if _is_end(state, flags, ahead, acknowledged) else SLOW_PATH


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
    return flags == _RST | _ACK and ahead <= own_fin


@inlined
def _skip_after_close(state: FastPathState, row: int) -> int:
    """Count a segment without payload that follows the end of its connection."""
    segments = state.segments
    if segments.flags[row] & _SYN or segments.starts[row] < segments.ends[row] or segments.missing[row]:
        return SLOW_PATH
    if state.totals[0].unnumbered:
        return SLOW_PATH
    state.totals[0].tcp += 1
    return DONE
