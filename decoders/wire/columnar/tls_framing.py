"""Compiled: the TLS records that a packet of an offloaded flow completes → frames."""

from __future__ import annotations

from typing import Any

from decoders.compilation import inlined, outlined
from decoders.tls.records import ContentType
from decoders.wire.columnar.fast_path import DONE, SLOW_PATH, FastPathState
from decoders.wire.columnar.framing import cut_frames
from decoders.wire.columnar.tls_window import NO_STREAM
from decoders.wire.record_stream import MAX_PIECES_AHEAD

_APPLICATION_DATA = int(ContentType.APPLICATION_DATA)


@inlined
def read_records(state: FastPathState) -> Any:
    """Process the bytes that are next in their direction. Returns DONE, or why that is not possible."""
    packet, window, stream = state.packet[0], state.tls, state.stream_draft[0]
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
    flow, stream = state.flow_draft[0], state.stream_draft[0]
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
    # Only what is behind records that are done is passed over: the packet may have to be processed again.
    first = window.records[ahead.next_record]
    while window.pieces[ahead.next_piece].end <= first.begin:
        ahead.next_piece += 1
    return DONE


@inlined
def _content_end(state: FastPathState, number: Any) -> Any:
    """Return where the application data of a record ends, -1 if it is not opened or of another type."""
    record = state.tls.records[number]
    begin, end = record.plain, record.plain + record.size
    if not record.opened:
        return -1
    if not state.flow_draft[0].hides_type:
        return end if record.type == _APPLICATION_DATA else -1
    while end > begin and state.data[end - 1] == 0:
        end -= 1
    is_data = end > begin and state.data[end - 1] == _APPLICATION_DATA
    return end - 1 if is_data and record.type == _APPLICATION_DATA else -1
