"""Follows calm lanes through a batch of segments: bytes → frames → paired answers. Compiled as a whole.

Says what `connection`, `stream`, `framing`, `dialogue` and `pairing` say of the same packets, and
nothing of a packet that is not calm: a packet's payload is heard with a draft of the lane's state, and
the draft is kept only if the packet was understood to its end. All compiled code stands in this one
file, as `compilation` demands, and is given what may be tuned elsewhere.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from decoders.compilation import compiled, inlined
from decoders.frame.record import NO_RECORD, Direction, Flag, Kind, Pairing
from decoders.wire.assembly import PREFIX
from decoders.wire.columnar.acknowledgements import FLEXIBLE, PRODUCE, UNKNOWN_LAYOUT
from decoders.wire.columnar.frames import FrameColumns
from decoders.wire.columnar.lanes import NOT_YET, TO_BROKER, TO_CLIENT
from decoders.wire.columnar.segments import SegmentBatch
from decoders.wire.columnar.socket_pairs import NO_SEGMENT, UNWATCHED
from decoders.wire.segment import TcpFlag

DONE: Final = 0
UNUSUAL: Final = 1
"""This packet is for the scalar tracker."""
NO_ROWS: Final = 2
NO_BYTES: Final = 3
"""This packet comes again, once there is more room for frames, or for the bytes of frames."""

_UNSAID: Final = -32768
_NONE: Final = -1
"""An answer that cannot be told to belong to any request, as the order of answers is not certain."""
_STRANGE: Final = -2
"""An answer that is not the one that is due."""
_FEWEST_BYTES: Final = 8192
_SEQUENCE_SPACE: Final = 1 << 32
_SASL_HANDSHAKE: Final = 17
_API_VERSIONS: Final = 18
_REQUEST_HEADER: Final = 8
_ANSWER_HEADER: Final = 4
_ACK: Final = int(TcpFlag.ACK)
_OPENS_OR_CLOSES: Final = int(TcpFlag.SYN | TcpFlag.FIN | TcpFlag.RST)
_REQUEST, _RESPONSE = int(Kind.REQUEST), int(Kind.RESPONSE)
_DIRECTIONS = (int(Direction.TO_BROKER), int(Direction.TO_CLIENT))
_SETTLED = int(Flag.SETTLED)
_MATCHED, _UNKNOWN, _NOT_PAIRED = int(Pairing.MATCHED), int(Pairing.UNKNOWN), int(Pairing.NONE)


class Following(NamedTuple):
    """All that is followed: the columns of a batch, the state, and where frames are written.

    `lane_of_pair` is int64, with NO_LANE where the lane is not known; `lanes`, `streams` and `waiting`
    are those of `Lanes`, `layouts` those of `produce_layouts`. `limits`, `totals`, `packet` and the drafts
    have one row each.
    """

    data: Any
    captured_at: Any
    positions: Any
    segments: SegmentBatch
    pairs: Any
    lane_of_pair: Any
    lanes: Any
    streams: Any
    waiting: Any
    layouts: Any
    limits: Any
    frames: FrameColumns
    totals: Any
    packet: Any
    lane_draft: Any
    stream_draft: Any
    totals_draft: Any


@inlined
def _number(data: Any, at: int, size: int) -> Any:
    """Read a signed big-endian number."""
    value = np.int64(np.int8(data[at]))
    for index in range(at + 1, at + size):
        value = value << 8 | np.int64(data[index])
    return value


@inlined
def _copy(source: Any, target: Any) -> None:
    # A slice assignment would first look whether the two overlap, and take the long way.
    for index in range(len(source)):
        target[index] = source[index]


@inlined
def _distance(number: int, origin: int) -> int:
    """Tell how far a 32-bit number lies ahead of another, or, negative, behind it."""
    ahead = (number - origin) & (_SEQUENCE_SPACE - 1)
    return ahead - _SEQUENCE_SPACE if ahead >= _SEQUENCE_SPACE // 2 else ahead


@inlined
def _acks(data: Any, at: Any, end: int, layout: int) -> Any:
    """Read the acks of a Produce request; _UNSAID where only a look at the whole header could tell."""
    at += _REQUEST_HEADER
    if layout == UNKNOWN_LAYOUT or at + 2 > end:
        return _UNSAID
    at += 2 + int(max(0, _number(data, at, 2)))
    if at + 2 > end:
        return _UNSAID
    if layout == FLEXIBLE:
        # No tagged field in the header; a transactional ID whose length takes one byte.
        if data[at] != 0 or data[at + 1] > 0x7F:
            return _UNSAID
        at += 2 + max(0, int(data[at + 1]) - 1)
    else:
        at += 2 + max(0, _number(data, at, 2))
    return _number(data, at, 2) if at + 2 <= end else _UNSAID


@inlined
def _owes_answer(following: Following, api_key: int, api_version: int) -> Any:
    """Read from the request at hand whether it is owed an answer: 0 or not, or _UNSAID."""
    stream, layouts = following.stream_draft[0], following.layouts
    if api_key != PRODUCE:
        return 1
    layout = layouts[api_version] if 0 <= api_version < len(layouts) else UNKNOWN_LAYOUT
    return _acks(following.data, stream.start, stream.start + stream.filled, layout)


@inlined
def _is_settled(following: Following) -> Any:
    """Whether the sender of the request at hand surely had the latest ApiVersions answer."""
    lane, stream = following.lane_draft[0], following.stream_draft[0]
    answers = following.streams[following.packet[0].lane, TO_CLIENT]
    heard = answers.next + _distance(stream.acknowledgment, answers.next_sequence)
    return (
        lane.advertised_end != NOT_YET
        and heard >= lane.advertised_end
        and stream.captured_at >= lane.advertised_at + following.limits[0].settling_time
    )


@inlined
def _is_used(waiting: Any, first: int, count: int, correlation_id: int) -> bool:
    """Whether the latest request, or one that waits, has this correlation ID."""
    for place in range(first - 1 if count == 0 else first, first + count):
        asked = waiting[place & (len(waiting) - 1)]
        if asked.correlation_id == correlation_id and asked.sequence != NO_RECORD:
            return True
    return False


@inlined
def _ask(following: Following, api_key: int, api_version: int, correlation_id: int) -> int:
    """Let the request at hand wait for its answer."""
    lane, waiting = following.lane_draft[0], following.waiting[following.packet[0].lane]
    asked_at = following.stream_draft[0].captured_at
    oldest = asked_at - following.limits[0].max_age
    first, count = lane.first_waiting, lane.waiting
    if count == len(waiting) or (count and waiting[first & (len(waiting) - 1)].asked_at < oldest):
        return UNUSUAL
    if _is_used(waiting, first, count, correlation_id):
        lane.ids_repeat = True
    asked = waiting[(first + count) & (len(waiting) - 1)]
    asked.sequence = following.totals_draft[0].next_sequence
    asked.correlation_id = correlation_id
    asked.api_key = api_key
    asked.api_version = api_version
    asked.asked_at = asked_at
    lane.waiting += 1
    return DONE


@inlined
def _write_pairing(  # noqa: PLR0917 - a row's columns
    frames: FrameColumns, row: int, pairing: int, sequence: int, api_key: int, api_version: int
) -> None:
    frames.pairings[row] = pairing
    frames.paired_sequences[row] = sequence
    frames.paired_api_keys[row] = api_key
    frames.paired_api_versions[row] = api_version


@inlined
def _hear_client(following: Following) -> int:
    """Take a whole request."""
    data, start = following.data, following.stream_draft[0].start
    row, frames = following.totals_draft[0].rows, following.frames
    if following.stream_draft[0].filled < _REQUEST_HEADER:
        return UNUSUAL
    api_key, api_version = _number(data, start, 2), _number(data, start + 2, 2)
    owed = _owes_answer(following, api_key, api_version)
    if api_key == _SASL_HANDSHAKE or owed == _UNSAID:
        return UNUSUAL
    frames.kinds[row] = _REQUEST
    frames.flags[row] = _SETTLED if _is_settled(following) else 0
    _write_pairing(frames, row, _NOT_PAIRED, NO_RECORD, -1, -1)
    return _ask(following, api_key, api_version, _number(data, start + 4, 4)) if owed else DONE


@inlined
def _answered(following: Following, correlation_id: int) -> Any:
    """Find the request that an answer belongs to: its place in the ring, or _NONE or _STRANGE."""
    lane = following.lane_draft[0]
    waiting = following.waiting[following.packet[0].lane]
    first, end = lane.first_waiting, lane.first_waiting + lane.waiting
    if lane.in_order:
        is_first = lane.waiting and waiting[first & (len(waiting) - 1)].correlation_id == correlation_id
        return first if is_first else _STRANGE
    place = _NONE
    if not lane.ids_repeat:
        for at in range(end - 1, first - 1, -1):
            if waiting[at & (len(waiting) - 1)].correlation_id == correlation_id:
                place = at
    return place


@inlined
def _hear_broker(following: Following, at: int) -> int:
    """Take a whole answer, which ends at a place in the data."""
    packet, lane, stream = following.packet[0], following.lane_draft[0], following.stream_draft[0]
    row, frames = following.totals_draft[0].rows, following.frames
    if stream.filled < _ANSWER_HEADER:
        return UNUSUAL
    place = _answered(following, _number(following.data, stream.start, 4))
    if place == _STRANGE:
        return UNUSUAL
    frames.kinds[row] = _RESPONSE
    frames.flags[row] = 0
    if place == _NONE:
        _write_pairing(frames, row, _UNKNOWN, NO_RECORD, -1, -1)
        return DONE
    waiting = following.waiting[packet.lane]
    asked = waiting[place & (len(waiting) - 1)]
    _write_pairing(frames, row, _MATCHED, asked.sequence, asked.api_key, asked.api_version)
    if asked.api_key == _API_VERSIONS:
        lane.advertised_end = stream.next + at - packet.begin
        lane.advertised_at = following.captured_at[packet.row]
    if not lane.in_order:
        lane.in_order = asked.sequence > lane.last_before_loss
    lane.waiting -= place + 1 - lane.first_waiting
    lane.first_waiting = place + 1
    return DONE


@inlined
def _finish_frame(following: Following, at: int) -> int:
    """Take a frame that is whole, and write it down."""
    packet, lane, stream = following.packet[0], following.lane_draft[0], following.stream_draft[0]
    totals, frames = following.totals_draft[0], following.frames
    row = totals.rows
    if row == len(frames.sequences):
        return NO_ROWS
    heard = _hear_client(following) if packet.direction == TO_BROKER else _hear_broker(following, at)
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
def _read_prefix(following: Following, at: int, end: int) -> int:
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
        shortest = _REQUEST_HEADER if packet.direction == TO_BROKER else _ANSWER_HEADER
        if stream.prefix < shortest or stream.prefix > following.limits[0].max_frame:
            return -1
        stream.size, stream.capacity = stream.prefix, 0
    return at


@inlined
def _add_piece(following: Following, at: int, end: int) -> Any:
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
def _pass_hole(following: Following, at: int, size: int) -> int:
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
def _cut(following: Following, at: int, end: int) -> int:
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
        heard = _cut(following, at, end)
        if heard == DONE and missing:
            heard = _pass_hole(following, end, missing)
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
    stream.next_sequence = (stream.next_sequence + end - at + missing) & (_SEQUENCE_SPACE - 1)
    return DONE


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
    is_ahead = _distance(segments.acknowledgments[row], other.next_sequence) > 0
    at, end, missing = segments.starts[row], segments.ends[row], segments.missing[row]
    ahead = _distance(segments.sequences[row], stream.next_sequence)
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
def _pass_over(following: Following, row: int) -> None:
    """Book a segment between two ports that are not watched."""
    totals, payload = following.totals[0], following.segments.ends[row] - following.segments.starts[row]
    totals.tcp += 1
    totals.captured += payload
    totals.other_port += payload


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
