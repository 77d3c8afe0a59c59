"""A row of the columns of segments as the scalar tracker's `Segment`: its headers are parsed already."""

from __future__ import annotations

from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.columnar.segments import SegmentBatch
from decoders.wire.columnar.socket_pairs import sockets_of
from decoders.wire.segment import Segment


def scalar_segment(packets: PacketBatch, segments: SegmentBatch, row: int) -> Segment:
    """Return the segment of a row that is `parsed`: what `read_segment` returns for the packet."""
    lower, upper = sockets_of(segments.sockets[row].tolist())
    source, destination = (lower, upper) if segments.forward.item(row) else (upper, lower)
    return Segment(
        source,
        destination,
        segments.sequences.item(row),
        segments.acknowledgments.item(row),
        segments.flags.item(row),
        packets.data[segments.starts.item(row) : segments.ends.item(row)].tobytes(),
        segments.missing.item(row),
        packets.captured_at.item(row),
        packets.positions.item(row),
    )
