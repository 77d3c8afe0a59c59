"""Compiled: the TLS records of the next packets of a batch, cut out of the streams before they are decrypted.

A *window* is a run of consecutive packets. For each direction of a flow that is decrypted, the bytes that are
next in order are gathered in one region, behind those of its incomplete record (`gather`). Bytes out of order
end the region: what follows them in the window is left to the scalar tracker. The regions are cut into
records (`cut_records`), and `sealed_records` returns what decrypts them, as
`decoders.tls.protection.Protection.open` does for one record.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoders.compilation import compiled
from decoders.memory import copy_bytes, int64_fields
from decoders.tls.protection import IV_SIZE, TAG_SIZE
from decoders.tls.records import HEADER_SIZE, MAX_FRAGMENT, ContentType
from decoders.wire.columnar.flows import TO_BROKER, TO_CLIENT
from decoders.wire.columnar.segments import SegmentBatch, distance
from decoders.wire.stream import SEQUENCE_SPACE

NO_STREAM = -1
SHORTEST_RECORD = HEADER_SIZE + TAG_SIZE
_FIRST_TYPE, _LAST_TYPE = int(min(ContentType)), int(max(ContentType))
_MAJOR_VERSION, _HIGHEST_MINOR_VERSION = 3, 3

ROW = int64_fields("stream begin size end")
"""A packet: its stream in the window or NO_STREAM, where its new bytes begin in the batch's data, how many
they are, and where they end in the stream's region."""
STREAM_AHEAD = int64_fields(
    "flow direction base next_sequence number held size start limit pieces first_piece next_piece"
    " records first_record next_record is_out_of_order"
)
"""One direction of a flow in the window.

Its region has `size` bytes at `start` of the ciphertext, of which `held` were captured before the window. It
begins at offset `base` of the stream and ends before `next_sequence`. Places in the region count from its
start; behind `limit` no record can be cut. Record `number` is the first one of the `records` from
`first_record` on. Its `pieces` from `first_piece` on say which packets carried it. `next_record` and
`next_piece` are how far the fast path has come.
"""
RECORD = int64_fields("begin content end at plain size type opened")
"""A complete record: where it begins in its region, where its encrypted content begins, and where it ends.

It begins at `at` of the ciphertext. If it could be `opened`, its plaintext is the `size` bytes at `plain` of
the batch's data. `type` is the content type in its header.
"""
PIECE = int64_fields("end captured_at position acknowledgment")
"""Bytes of one segment: where they end in the region, and the fields of `Chunk` of these names."""
_NUMBER_SIZE: Final = 8
_ASSOCIATED_SIZE: Final = _NUMBER_SIZE + HEADER_SIZE
"""Bytes that TLS 1.2 authenticates: the number, and a header with the size of the plaintext."""


class TlsWindow(NamedTuple):
    """A window, as the fast path reads it. `rows` has a row for each packet of the batch, or more."""

    rows: NDArray[Any]
    streams: NDArray[Any]
    records: NDArray[Any]
    pieces: NDArray[Any]

    @classmethod
    def empty(cls) -> TlsWindow:
        """A window without packets and streams."""
        return cls(np.zeros(0, ROW), np.zeros(1, STREAM_AHEAD), np.zeros(1, RECORD), np.zeros(1, PIECE))

    def for_packets(self, packets: int) -> TlsWindow:
        """A window without streams for a batch of packets. It uses the memory of this one."""
        rows = self.rows if len(self.rows) >= packets else np.zeros(packets, ROW)
        rows["stream"] = NO_STREAM
        return self._replace(rows=rows)


@compiled(None)
def gather(  # noqa: PLR0917 - columns
    segments: SegmentBatch,
    pairs: Any,
    flow_of_pair: Any,
    flows: Any,
    streams: Any,
    begin: int,
    end: int,
    stream_of: Any,
    rows: Any,
    found: Any,
) -> Any:
    """Find the streams of the packets from `begin` to `end`, and which bytes of each are next in order.

    `stream_of`, of shape (flows, 2), is NO_STREAM, and then the number of each stream in `found`. Returns how
    many streams were found.
    """
    count = 0
    for row in range(begin, end):
        pair = pairs[row]
        flow = flow_of_pair[pair] if pair >= 0 else np.int64(-1)
        if flow < 0 or not flows[flow].is_tls or not flows[flow].offloaded:
            continue
        size = segments.ends[row] - segments.starts[row]
        if size == 0:
            continue
        direction = TO_BROKER if segments.forward[row] == flows[flow].lower_is_client else TO_CLIENT
        if stream_of[flow, direction] == NO_STREAM:
            stream_of[flow, direction] = count
            new, state = found[count], streams[flow, direction]
            new.flow, new.direction, new.number = flow, direction, state.number
            new.next_sequence, new.held = state.next_sequence, state.held
            new.base, new.size = state.next - state.held, state.held
            new.pieces, new.records, new.is_out_of_order = 0, 0, False
            count += 1
        stream = found[stream_of[flow, direction]]
        ahead = distance(segments.sequences[row], stream.next_sequence)
        repeated = max(0, min(size, -ahead))
        if stream.is_out_of_order or repeated == size:
            continue
        if ahead > 0 or segments.missing[row]:
            stream.is_out_of_order = True
            continue
        stream.next_sequence = (stream.next_sequence + size - repeated) & (SEQUENCE_SPACE - 1)
        stream.size += size - repeated
        stream.pieces += 1
        rows[row].stream = stream_of[flow, direction]
        rows[row].begin, rows[row].size = segments.starts[row] + repeated, size - repeated
        rows[row].end = stream.size
    return count


@compiled(None)
def cut_records(  # noqa: PLR0917 - columns
    data: Any,
    captured_at: Any,
    positions: Any,
    segments: SegmentBatch,
    flows: Any,
    begin: int,
    end: int,
    window: TlsWindow,
    count: int,
    ciphertext: Any,
) -> Any:
    """Copy the bytes of the packets to the regions of `count` streams, and cut these into records.

    `next_piece` of each stream must say where its pieces of this window go. Returns the number of records.
    """
    for row in range(begin, end):
        place = window.rows[row]
        if place.stream == NO_STREAM:
            continue
        stream = window.streams[place.stream]
        target = stream.start + place.end - place.size
        copy_bytes(data[place.begin : place.begin + place.size], ciphertext[target : target + place.size])
        piece = window.pieces[stream.next_piece]
        piece.end, piece.captured_at, piece.position = place.end, captured_at[row], positions[row]
        piece.acknowledgment = segments.acknowledgments[row]
        stream.next_piece += 1
    total, plain = 0, 0
    for number in range(count):
        stream = window.streams[number]
        explicit_nonce = flows[stream.flow].explicit_nonce
        stream.next_piece, stream.limit = stream.first_piece, stream.size
        stream.first_record = stream.next_record = total
        at = 0
        while at + HEADER_SIZE <= stream.size:
            header = stream.start + at
            length = (np.int64(ciphertext[header + 3]) << 8) + ciphertext[header + 4]
            is_known = _FIRST_TYPE <= ciphertext[header] <= _LAST_TYPE
            is_known = is_known and ciphertext[header + 1] == _MAJOR_VERSION
            is_known = is_known and 1 <= ciphertext[header + 2] <= _HIGHEST_MINOR_VERSION
            if not is_known or length < TAG_SIZE + explicit_nonce or length > MAX_FRAGMENT:
                stream.limit = at
                break
            if at + HEADER_SIZE + length > stream.size:
                break
            record = window.records[total]
            record.begin, record.content = at, at + HEADER_SIZE + explicit_nonce
            record.end, record.at = at + HEADER_SIZE + length, header
            record.plain, record.size = plain, length - explicit_nonce - TAG_SIZE
            record.type, record.opened = ciphertext[header], True
            plain += record.size
            at = record.end
            total += 1
        stream.records = total - stream.first_record
    return total


@compiled(None)
def end_window(  # noqa: PLR0917 - columns
    found: Any, count: int, flows: Any, streams: Any, stream_of: Any, incomplete: Any
) -> Any:
    """Forget the streams of a window, and list those with an incomplete record at its beginning or end.

    Writes their numbers to `incomplete`, and returns how many there are. Connections that were restored
    hold their records themselves.
    """
    listed = 0
    for number in range(count):
        flow, direction = found[number].flow, found[number].direction
        stream_of[flow, direction] = NO_STREAM
        is_held = found[number].held > 0 or streams[flow, direction].held > 0
        if is_held and flows[flow].offloaded and flows[flow].is_tls:
            incomplete[listed] = number
            listed += 1
    return listed


def sealed_records(
    streams: NDArray[Any],
    records: NDArray[Any],
    flows: NDArray[Any],
    ciphertext: NDArray[np.uint8],
    vectors: NDArray[np.uint8],
) -> list[list[Any]]:
    """Return the columns of `decoders.tls.protection.SealedRecord` behind the first one.

    `records` are those of the streams, in their order; `vectors` has shape (streams, IV_SIZE).
    """
    places = np.empty((4, len(records)), np.int64)
    nonces = np.empty((len(records), IV_SIZE), np.uint8)
    associated = np.empty((len(records), _ASSOCIATED_SIZE), np.uint8)
    _seal(streams, records, flows, ciphertext, vectors, places, nonces, associated)
    headers = _as_bytes(associated[:, :HEADER_SIZE])
    is_tls_1_3 = flows["hides_type"][streams["flow"]]
    if not is_tls_1_3.all():
        which = np.repeat(is_tls_1_3, streams["records"]).tolist()
        rows = zip(headers, _as_bytes(associated), which, strict=True)
        headers = [header if hides_type else longer for header, longer, hides_type in rows]
    return [_as_bytes(nonces), *places.tolist(), headers]


def _as_bytes(rows: NDArray[np.uint8]) -> list[bytes]:
    found: list[bytes] = np.ascontiguousarray(rows).view(f"V{rows.shape[1]}")[:, 0].tolist()
    return found


@compiled(None)
def _seal(  # noqa: PLR0917 - columns
    streams: Any,
    records: Any,
    flows: Any,
    ciphertext: Any,
    vectors: Any,
    places: Any,
    nonces: Any,
    associated: Any,
) -> None:
    """Fill `places`, of shape (4, records), `nonces` and `associated`, of which TLS 1.3 needs the header."""
    row = 0
    for number in range(len(streams)):
        stream = streams[number]
        flow = flows[stream.flow]
        for count in range(stream.records):
            record, own = records[row], stream.number + count
            begin = record.at + record.content - record.begin
            places[0, row], places[1, row] = begin, record.at + record.end - record.begin
            places[2, row], places[3, row] = record.plain, record.plain + record.size
            for at in range(IV_SIZE):
                nonces[row, at] = vectors[number, at]
            for at in range(_NUMBER_SIZE):
                byte = (own >> (8 * (_NUMBER_SIZE - 1 - at))) & 0xFF
                varying = ciphertext[begin - _NUMBER_SIZE + at] if flow.explicit_nonce else np.uint8(byte)
                nonces[row, IV_SIZE - _NUMBER_SIZE + at] ^= varying
                associated[row, at] = byte
            begins = 0 if flow.hides_type else _NUMBER_SIZE
            for at in range(HEADER_SIZE):
                associated[row, begins + at] = ciphertext[record.at + at]
            if not flow.hides_type:
                associated[row, _ASSOCIATED_SIZE - 2] = (record.size >> 8) & 0xFF
                associated[row, _ASSOCIATED_SIZE - 1] = record.size & 0xFF
            row += 1
