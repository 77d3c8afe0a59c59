"""The compiled entry: calm lanes followed through a batch of segments, packet by packet."""

from __future__ import annotations

from typing import Any, Final

from decoders.compilation import compiled, inlined
from decoders.wire.assembly import PREFIX
from decoders.wire.columnar.exchanges import distance
from decoders.wire.columnar.following import DONE, UNUSUAL, Following
from decoders.wire.columnar.framing import cut, pass_hole
from decoders.wire.columnar.lanes import NOT_YET, TO_BROKER, TO_CLIENT
from decoders.wire.columnar.socket_pairs import NO_SEGMENT, UNWATCHED
from decoders.wire.segment import TcpFlag
from decoders.wire.stream import SEQUENCE_SPACE

_ACK: Final = int(TcpFlag.ACK)
_OPENS_OR_CLOSES: Final = int(TcpFlag.SYN | TcpFlag.FIN | TcpFlag.RST)


@compiled(None)
def follow(following: Following, row: int) -> tuple[int, int]:
    """Go on at a packet; gives why it stopped (DONE at the end of the batch), and at which packet."""
    totals, packet = following.totals[0], following.packet[0]
    while row < len(following.pairs):
        pair, captured_at = following.pairs[row], following.captured_at[row]
        heard = DONE
        if pair != NO_SEGMENT:
            if captured_at - totals.earliest > following.limits[0].idle_after:
                return UNUSUAL, row
            totals.earliest = min(totals.earliest, captured_at)
            if pair == UNWATCHED:
                _pass_over(following, row)
            else:
                packet.row, packet.lane = row, following.lane_of_pair[pair] if pair >= 0 else -1
                is_calm = packet.lane >= 0 and following.lanes[packet.lane].calm
                heard = _hear(following, row) if is_calm else UNUSUAL
        if heard != DONE:
            return heard, row
        row += 1
    return DONE, row


@inlined
def _hear(following: Following, row: int) -> int:
    """Take a segment of a calm lane; gives what `_hear_payload` gives."""
    segments, totals, packet = following.segments, following.totals[0], following.packet[0]
    if segments.flags[row] & _OPENS_OR_CLOSES:
        return UNUSUAL
    lane = following.lanes[packet.lane]
    packet.direction = TO_BROKER if segments.forward[row] == lane.lower_is_client else TO_CLIENT
    stream, other = (
        following.streams[packet.lane, packet.direction],
        following.streams[packet.lane, 1 - packet.direction],
    )
    is_ahead = distance(segments.acknowledgments[row], other.next_sequence) > 0
    at, end, missing = segments.starts[row], segments.ends[row], segments.missing[row]
    ahead = distance(segments.sequences[row], stream.next_sequence)
    repeated = max(0, min(end - at, -ahead))
    if (segments.flags[row] & _ACK and is_ahead) or (at < end and ahead > 0) or (missing and ahead):
        return UNUSUAL
    if repeated < end - at or missing:
        heard = _hear_payload(following, at + repeated, end)
        if heard != DONE:
            return heard
    lane.last_seen_at, lane.last_position = following.captured_at[row], following.positions[row]
    lane.last_packet = totals.packets + row
    lane.captured += end - at
    lane.duplicate += repeated
    totals.tcp += 1
    totals.captured += end - at
    totals.duplicate += repeated
    return DONE


@inlined
def _hear_payload(following: Following, at: int, end: int) -> int:
    """Take the bytes that are next in their direction. Gives DONE, or why the packet cannot be taken."""
    packet = following.packet[0]
    lane, stream = following.lanes[packet.lane], following.streams[packet.lane, packet.direction]
    following.lane_draft[0], following.stream_draft[0] = lane, stream
    following.totals_draft[0] = following.totals[0]
    packet.begin = at
    missing = following.segments.missing[packet.row]
    if lane.opaque:
        heard = _leave_alone(following, end - at, missing)
    else:
        heard = cut(following, at, end)
        if heard == DONE and missing:
            heard = pass_hole(following, end, missing)
    if heard != DONE:
        return heard
    limits = following.limits[0]
    held = _held(following.lane_draft[0], following.stream_draft[0], limits.owed_cost)
    held -= _held(lane, stream, limits.owed_cost)
    if following.totals[0].held + held > limits.max_held:
        return UNUSUAL
    following.lanes[packet.lane] = following.lane_draft[0]
    following.streams[packet.lane, packet.direction] = following.stream_draft[0]
    following.totals[0] = following.totals_draft[0]
    following.totals[0].held += held
    lane.held += held
    stream.next += end - at + missing
    stream.next_sequence = (stream.next_sequence + end - at + missing) & (SEQUENCE_SPACE - 1)
    return DONE


@inlined
def _leave_alone(following: Following, size: int, missing: int) -> int:
    """Pass bytes that are not Kafka."""
    lane, totals = following.lane_draft[0], following.totals_draft[0]
    lane.left_alone += size
    totals.left_alone += size
    lane.lost += missing
    totals.lost += missing
    return DONE


@inlined
def _held(lane: Any, stream: Any, owed_cost: int) -> Any:
    """Tell how much memory waits in the frame of one direction and in the requests without an answer."""
    return owed_cost * lane.waiting + (
        stream.prefix_length if stream.size == NOT_YET else PREFIX + stream.filled
    )


@inlined
def _pass_over(following: Following, row: int) -> None:
    """Book a segment between two ports that are not watched."""
    totals, payload = following.totals[0], following.segments.ends[row] - following.segments.starts[row]
    totals.tcp += 1
    totals.captured += payload
    totals.other_port += payload
