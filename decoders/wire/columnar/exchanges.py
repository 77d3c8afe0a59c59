"""A whole frame of a calm lane: a request that waits for its answer, or an answer and whose it is."""

from __future__ import annotations

from typing import Any, Final

from decoders.codec.columnar.numbers import int16, int32, wide
from decoders.compilation import inlined
from decoders.frame.record import NO_RECORD, Flag, Kind, Pairing
from decoders.wire.columnar.acknowledgements import REQUEST_HEADER, UNSAID, owes_answer
from decoders.wire.columnar.following import DONE, NO_PLACES, UNUSUAL, Following
from decoders.wire.columnar.frames import FrameColumns
from decoders.wire.columnar.lanes import NOT_YET, TO_CLIENT
from decoders.wire.columnar.waiting import place_of
from decoders.wire.stream import SEQUENCE_SPACE

ANSWER_HEADER: Final = 4
"""Bytes of an answer that every one has: its correlation ID."""
_NONE: Final = -1
"""An answer that cannot be told to belong to any request, as the order of answers is not certain."""
_STRANGE: Final = -2
"""An answer that is not the one that is due."""
_SASL_HANDSHAKE: Final = 17
_API_VERSIONS: Final = 18
_REQUEST, _RESPONSE = int(Kind.REQUEST), int(Kind.RESPONSE)
_SETTLED = int(Flag.SETTLED)
_MATCHED, _UNKNOWN, _NOT_PAIRED = int(Pairing.MATCHED), int(Pairing.UNKNOWN), int(Pairing.NONE)


@inlined
def distance(number: Any, origin: Any) -> Any:
    """Tell how far a 32-bit sequence number lies ahead of another, or, negative, behind it."""
    ahead = (number - origin) & (SEQUENCE_SPACE - 1)
    return ahead - SEQUENCE_SPACE if ahead >= SEQUENCE_SPACE // 2 else ahead


@inlined
def hear_client(following: Following) -> Any:
    """Take a whole request."""
    data, stream = following.data, following.stream_draft[0]
    row, frames, start = following.totals_draft[0].rows, following.frames, stream.start
    if stream.filled < REQUEST_HEADER:
        return UNUSUAL
    api_key, api_version = wide(int16(data, start)), wide(int16(data, start + 2))
    owed = owes_answer(data, start, start + stream.filled, following.layouts)
    if api_key == _SASL_HANDSHAKE or owed == UNSAID:
        return UNUSUAL
    frames.kinds[row] = _REQUEST
    frames.flags[row] = _SETTLED if _is_settled(following) else 0
    _write_pairing(frames, row, _NOT_PAIRED, NO_RECORD, -1, -1)
    return _ask(following, api_key, api_version, wide(int32(data, start + 4))) if owed else DONE


@inlined
def hear_broker(following: Following, at: Any) -> Any:
    """Take a whole answer, which ends at a place in the data."""
    packet, lane, stream = following.packet[0], following.lane_draft[0], following.stream_draft[0]
    row, frames = following.totals_draft[0].rows, following.frames
    if stream.filled < ANSWER_HEADER:
        return UNUSUAL
    number = _answered(following, wide(int32(following.data, stream.start)))
    if number == _STRANGE:
        return UNUSUAL
    frames.kinds[row] = _RESPONSE
    frames.flags[row] = 0
    if number == _NONE:
        _write_pairing(frames, row, _UNKNOWN, NO_RECORD, -1, -1)
        return DONE
    asked = following.waiting[place_of(lane, number)]
    _write_pairing(frames, row, _MATCHED, asked.sequence, asked.api_key, asked.api_version)
    if asked.api_key == _API_VERSIONS:
        lane.advertised_end = stream.next + at - packet.begin
        lane.advertised_at = following.captured_at[packet.row]
    if not lane.in_order:
        lane.in_order = asked.sequence > lane.last_before_loss
    lane.waiting -= number + 1 - lane.first_waiting
    lane.first_waiting = number + 1
    return DONE


@inlined
def _is_settled(following: Following) -> Any:
    """Whether the sender of the request at hand surely had the latest ApiVersions answer."""
    lane, stream = following.lane_draft[0], following.stream_draft[0]
    answers = following.streams[following.packet[0].lane, TO_CLIENT]
    heard = answers.next + distance(stream.acknowledgment, answers.next_sequence)
    return (
        lane.advertised_end != NOT_YET
        and heard >= lane.advertised_end
        and stream.captured_at >= lane.advertised_at + following.limits[0].settling_time
    )


@inlined
def _ask(following: Following, api_key: Any, api_version: Any, correlation_id: Any) -> Any:
    """Let the request at hand wait for its answer."""
    lane, waiting = following.lane_draft[0], following.waiting
    asked_at = following.stream_draft[0].captured_at
    oldest = asked_at - following.limits[0].max_age
    if lane.waiting and waiting[place_of(lane, lane.first_waiting)].asked_at < oldest:
        return UNUSUAL
    if lane.waiting == following.limits[0].max_owed:
        return UNUSUAL
    if lane.waiting == lane.ring_size - 1:
        return NO_PLACES
    # Those of most clients ascend, so the requests that wait need not be looked through.
    if correlation_id > lane.highest_id:
        lane.highest_id = correlation_id
    elif not lane.ids_repeat:
        lane.ids_repeat = _is_used(lane, waiting, correlation_id)
    asked = waiting[place_of(lane, lane.first_waiting + lane.waiting)]
    asked.sequence = following.totals_draft[0].next_sequence
    asked.correlation_id = correlation_id
    asked.api_key = api_key
    asked.api_version = api_version
    asked.asked_at = asked_at
    lane.waiting += 1
    return DONE


@inlined
def _is_used(lane: Any, waiting: Any, correlation_id: Any) -> Any:
    """Whether the latest request, or one that waits, has this correlation ID."""
    first, end = lane.first_waiting, lane.first_waiting + lane.waiting
    for number in range(first if first < end else first - 1, end):
        asked = waiting[place_of(lane, number)]
        if asked.correlation_id == correlation_id and asked.sequence != NO_RECORD:
            return True
    return False


@inlined
def _answered(following: Following, correlation_id: Any) -> Any:
    """Find the request that an answer belongs to: its number in the ring, or _NONE or _STRANGE."""
    lane, waiting = following.lane_draft[0], following.waiting
    first, end = lane.first_waiting, lane.first_waiting + lane.waiting
    if lane.in_order:
        is_first = first < end and waiting[place_of(lane, first)].correlation_id == correlation_id
        return first if is_first else _STRANGE
    if not lane.ids_repeat:
        for number in range(first, end):
            if waiting[place_of(lane, number)].correlation_id == correlation_id:
                return number
    return _NONE


@inlined
def _write_pairing(  # noqa: PLR0917 - a row's columns
    frames: FrameColumns, row: Any, pairing: Any, sequence: Any, api_key: Any, api_version: Any
) -> None:
    frames.pairings[row] = pairing
    frames.paired_sequences[row] = sequence
    frames.paired_api_keys[row] = api_key
    frames.paired_api_versions[row] = api_version
