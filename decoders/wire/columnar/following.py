"""What the compiled code that follows calm lanes is given, and what it says of a packet.

That code says what `connection`, `stream`, `framing`, `dialogue` and `pairing` say of the same packets, and
nothing of a packet that is not calm: a packet's payload is heard with a draft of the lane's state, and
the draft is kept only if the packet was understood to its end.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from decoders.wire.columnar.frames import FrameColumns
from decoders.wire.columnar.segments import SegmentBatch

DONE: Final = 0
UNUSUAL: Final = 1
"""This packet is for the scalar tracker."""
NO_ROWS: Final = 2
NO_BYTES: Final = 3
NO_PLACES: Final = 4
"""This packet comes again, once there is more room for frames, for the bytes of frames, or for requests
of its lane that wait."""


class Following(NamedTuple):
    """All that is followed: the columns of a batch, the state, and where frames are written.

    `lane_of_pair` is int64, with NO_LANE where the lane is not known; `lanes` and `streams` are those of
    `Lanes`, `waiting` the places of its rings, `layouts` those of `produce_layouts`. `limits`, `totals`,
    `packet` and the drafts have one row each.
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
