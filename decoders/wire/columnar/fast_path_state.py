"""The arrays that the compiled code of the fast path works on, and its results for a packet.

The fast path produces what `connection`, `stream`, `framing`, `kafka_layer` and their parts produce for the
same packets. A packet that is out of the ordinary changes nothing: flow, stream and totals are copied before
its payload is processed, and restored if it is not processed to its end.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from decoders.memory import int64_fields
from decoders.wire.columnar.flows import BYTE_COUNTS
from decoders.wire.columnar.frames import FrameColumns
from decoders.wire.columnar.segments import SegmentBatch
from decoders.wire.columnar.tls_window import TlsWindow

DONE: Final = 0
SLOW_PATH: Final = 1
"""The scalar tracker must process this packet."""
OUT_OF_ROWS: Final = 2
OUT_OF_BYTES: Final = 3
OUT_OF_SLOTS: Final = 4
"""Process the packet again, after the rows for frames, the bytes for frames or the flow's ring of requests in
flight has grown."""
CLOSES: Final = 5
"""The packet ends its connection, of which nothing else is left to process. The fast path goes on."""
OUT_OF_FLOWS: Final = 6
"""Process the packet again, after flows were made ready."""

TOTALS = int64_fields(
    "packets end next_sequence rows top earliest oldest looked_at waits_until held tcp other_port"
    " open max_open half_open max_half_open ready changes"
)
"""Totals of all flows.

`packets` is the number of the batch's first packet, counted from 1, `end` the row behind those to process.
`rows` rows for frames are used; the free part of the data begins at `top`.

`held` is the memory, in bytes, that all connections hold, offloaded or not. `open` connections are open,
`half_open` of them half-open; below `max_open` and `max_half_open` a SYN opens another one without the scalar
tracker. `ready` flows are ready, and `changes` rows of the table of changes are used.

Times are nanoseconds since the epoch. `earliest` is the earliest capture time since the queue of silent
connections was filled. Those still in the queue were last seen at `oldest` or later. So no open connection
was last seen before the earlier of the two. Idle ones were last looked for at `looked_at`. A packet captured
after `waits_until` makes a connection give up a wait.
"""
PORT_BYTES = int64_fields(BYTE_COUNTS)
"""Counts of the bytes to one port. The first row is for ports that are not named."""
LIMITS = int64_fields("max_frame max_held max_in_flight")
"""The arguments of a tracker of these names, and MAX_IN_FLIGHT."""
CHANGE = int64_fields("row pair flow sequence initial_sequence closing closer closed")
"""A connection that a packet opened (`closing` is 0) or closed: the row of the packet, the socket pair, the
flow, and the number of the record. `closer` is the direction that was closed first. Bit 0 of `closed` says
whether the client has closed TO_BROKER, bit 1 whether the broker has closed TO_CLIENT."""
PACKET = int64_fields("row flow direction begin captured_at position acknowledgment record_end")
"""The packet being processed: its row, flow and direction, and where its new bytes begin in the data.

The next three fields are those of the segment that carried the bytes being framed: this packet, or an earlier
one of the same TLS record, which ends at offset `record_end` of the stream.
"""


class FastPathState(NamedTuple):
    """The columns of a batch, the state of all flows, and the columns that frames are written to.

    `flow_of_pair` is int64, with NO_FLOW where the flow is not known, CLOSED where it is closed. `flows` and
    `streams` are the arrays of `Flows`, `in_flight` are the slots of its rings, `layouts` is the result of
    `produce_layouts`, `known_apis` says of each unsigned 16-bit number whether it is the API key of a first
    request that takes the fast path. `ports` has dtype PORT_BYTES and a row for each watched port. `tls` has
    the records of flows that are decrypted. `limits`, `totals`, `packet` and the copies `…_before` have one
    row each, with the dtypes LIMITS, TOTALS, PACKET, FLOW, STREAM and TOTALS.

    `latest_syn_of_pair`, `closer_of_pair` (int64) and `port_rows` (uint16, rows of `ports`) are those of
    `FlowTable`. `watched` has True for each watched port. `opened_flow` and `opened_stream` are the state of
    a connection of which only the SYN was captured. `ready` has dtype READY, and `changes` dtype CHANGE and a
    row for each packet of the batch, or more.
    """

    data: Any
    captured_at: Any
    positions: Any
    segments: SegmentBatch
    pairs: Any
    flow_of_pair: Any
    flows: Any
    streams: Any
    in_flight: Any
    layouts: Any
    known_apis: Any
    limits: Any
    frames: FrameColumns
    totals: Any
    ports: Any
    latest_syn_of_pair: Any
    closer_of_pair: Any
    watched: Any
    port_rows: Any
    opened_flow: Any
    opened_stream: Any
    ready: Any
    changes: Any
    tls: TlsWindow
    packet: Any
    flow_before: Any
    stream_before: Any
    totals_before: Any
