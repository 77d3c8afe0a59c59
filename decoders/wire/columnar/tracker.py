"""All connections of a source, a batch of packets at a time: packets in, columns of frames out.

Equal to `decoders.wire.tracker`, record for record and byte for byte of the ledger, and built on it:
that tracker opens and closes connections and takes every packet that is out of the ordinary. While a
connection's traffic is calm a lane stands for it, and compiled code follows it without a call to
Python. Records are numbered in the order of the packets, whichever of the two made them.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import dropwhile

import numpy as np

from decoders.frame.record import Record
from decoders.schema.registry import Schemas
from decoders.wire.assembly import MAX_FRAME
from decoders.wire.columnar.acknowledgements import produce_layouts
from decoders.wire.columnar.following import DONE, NO_BYTES, NO_PLACES, NO_ROWS, Following
from decoders.wire.columnar.frames import FrameBatch
from decoders.wire.columnar.gathering import Gathering
from decoders.wire.columnar.kernel import follow
from decoders.wire.columnar.lanes import LANE, LIMITS, PACKET, STREAM, TOTALS
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.columnar.roster import Roster
from decoders.wire.columnar.segments import read_segments
from decoders.wire.columnar.socket_pairs import NO_PAIR, NO_SEGMENT, SocketPairs
from decoders.wire.connection import Connection
from decoders.wire.dialogue import SETTLING_TIME
from decoders.wire.ledger import Ledger, Reason
from decoders.wire.pairing import MAX_AGE, MAX_OWED, OWED_COST
from decoders.wire.segment import Segment, Skipped, read_segment
from decoders.wire.tracker import IDLE_AFTER, MAX_CONNECTIONS, MAX_HELD, Ended, Tracker

_LATEST_TIME = np.iinfo(np.int64).max
MOST_PAIRS = 1 << 20
"""Of so many pairs of sockets most are surely done with: their numbers are begun anew."""


class ColumnarTracker:
    """Follows every connection to the watched ports.

    The batches of packets must follow on each other. `ledger` is right between two calls.
    """

    def __init__(
        self,
        schemas: Schemas,
        *,
        ports: Collection[int],
        run: int,
        cluster: str = "",
        feeder: str = "",
        max_connections: int = MAX_CONNECTIONS,
        max_held: int = MAX_HELD,
        max_frame: int = MAX_FRAME,
        ended: Ended | None = None,
    ) -> None:
        """Watch `ports`, or every port when there are none. The rest means what it means to `Tracker`."""
        self._totals = np.zeros(1, TOTALS)
        self._totals["packets"], self._totals["next_sequence"], self._totals["earliest"] = 1, 1, _LATEST_TIME
        self._tracker = Tracker(
            schemas,
            ports=ports,
            run=run,
            cluster=cluster,
            feeder=feeder,
            max_connections=max_connections,
            max_held=max_held,
            max_frame=max_frame,
            next_sequence=self._take_sequence,
            ended=ended,
        )
        self._drafts = tuple(np.zeros(1, kind) for kind in (PACKET, LANE, STREAM, TOTALS))
        self._max_connections = max_connections
        self._max_held = max_held
        limits = (IDLE_AFTER, SETTLING_TIME, MAX_AGE, max_frame, max_held, MAX_OWED, OWED_COST)
        self._limits = np.array([limits], LIMITS)
        self._watched = np.full(1 << 16, not ports)
        self._watched[list(ports)] = True
        self._socket_pairs = SocketPairs(self._watched)
        self._layouts = produce_layouts(schemas)
        self._roster = Roster(self._tracker)
        self._packets = PacketBatch.of([])
        self._segments = read_segments(self._packets)
        self._pairs = np.empty(0, np.int64)
        self._gathering = Gathering.beside(self._packets)

    @property
    def ledger(self) -> Ledger:
        """What became of every captured byte."""
        return self._tracker.ledger

    @property
    def connections(self) -> Collection[Connection]:
        """The connections that are open. What they tell of themselves is right only after `finish`."""
        return self._tracker.connections

    def feed(self, packets: PacketBatch) -> FrameBatch:
        """Take the next packets, and give what is complete with them."""
        self._begin(packets)
        row = 0
        while True:
            stopped, row = follow(self._following(), row)
            self._gathering.rows, self._gathering.top = self._totals["rows"][0], self._totals["top"][0]
            if stopped == DONE:
                return self._end()
            if stopped == NO_ROWS:
                self._gathering.widen()
            elif stopped == NO_BYTES:
                self._gathering.enlarge()
            elif stopped == NO_PLACES:
                self._roster.lanes.widen_ring(int(self._drafts[0]["lane"][0]))
            elif self._take_unusual(row):
                row += 1

    def finish(self) -> FrameBatch:
        """Give what is still held at the end of the source. Connections that are open stay unclosed."""
        self._begin(PacketBatch.of([]))
        self._roster.restore_order()
        for connection in self._tracker.connections:
            self._roster.hand_back(connection, self._gathering.data)
        self._book(self._tracker.finish())
        return self._end()

    def _take_sequence(self) -> int:
        sequence = int(self._totals["next_sequence"][0])
        self._totals["next_sequence"] = sequence + 1
        return sequence

    def _begin(self, packets: PacketBatch) -> None:
        if self._socket_pairs.count > MOST_PAIRS:
            self._socket_pairs = SocketPairs(self._watched)
            self._roster.forget_pairs()
        self._packets = packets
        self._segments = read_segments(packets)
        self._pairs = self._socket_pairs.number(self._segments)
        self._count_skipped()
        earlier, self._gathering = self._gathering, Gathering.beside(packets)
        self._roster.begin(self._socket_pairs.count, earlier, self._gathering)

    def _count_skipped(self) -> None:
        """Have done with the packets that hold no segment: no order matters among them."""
        for row in np.flatnonzero(self._pairs == NO_PAIR).tolist():
            segment = read_segment(self._packets.packet(row))
            if isinstance(segment, Skipped):
                self._pairs[row] = NO_SEGMENT
                self._tracker.ledger.packets[segment.reason] += 1

    def _end(self) -> FrameBatch:
        self._totals["packets"] += self._packets.size
        self._settle_ledger()
        return self._gathering.batch(self._roster.openings())

    def _settle_ledger(self) -> None:
        """Book what the lanes have counted since this was done last."""
        ledger = self._tracker.ledger
        ledger.packets["tcp"] += self._take_total("tcp")
        ledger.capture(self._take_total("captured"))
        ledger.frame(self._take_total("framed"))
        ledger.lose(self._take_total("lost"))
        ledger.skip(Reason.AFTER_HOLE, self._take_total("after_hole"))
        ledger.skip(Reason.DUPLICATE, self._take_total("duplicate"))
        ledger.skip(Reason.OPAQUE, self._take_total("left_alone"))
        ledger.skip(Reason.OTHER_PORT, self._take_total("other_port"))

    def _take_total(self, name: str) -> int:
        total = int(self._totals[name][0])
        self._totals[name] = 0
        return total

    def _following(self) -> Following:
        self._totals["rows"], self._totals["top"] = self._gathering.rows, self._gathering.top
        lanes = self._roster.lanes
        return Following(
            self._gathering.data,
            self._packets.captured_at,
            self._packets.positions,
            self._segments,
            self._pairs,
            self._roster.lane_of_pair,
            lanes.states,
            lanes.streams,
            lanes.rings.places,
            self._layouts,
            self._limits,
            self._gathering.columns,
            self._totals,
            *self._drafts,
        )

    def _take_unusual(self, row: int) -> bool:
        """Let the scalar tracker take a packet; False if a calm lane turns out to stand for it."""
        segment = read_segment(self._packets.packet(row))
        assert isinstance(segment, Segment)
        pair = int(self._pairs[row])
        connection = self._tracker.find(segment)
        if connection is not None:
            if pair >= 0 and self._roster.link(pair, self._roster.lane_of(connection)):
                return False
            self._roster.hand_back(connection, self._gathering.data)
        self._make_ready(segment, is_new=connection is None)
        self._hear(segment)
        connection = self._tracker.find(segment)
        if connection is not None:
            lane = self._roster.heard(connection, int(self._totals["packets"][0]) + row)
            if pair >= 0:
                self._roster.link(pair, lane)
                lower_is_client = bool(self._segments.forward[row]) == (segment.source == connection.client)
                self._roster.take_over(connection, lower_is_client, self._gathering)
        return True

    def _hear(self, segment: Segment) -> None:
        self._tracker.held = int(self._totals["held"][0])
        self._book(self._tracker.hear(segment))
        self._totals["held"] = self._tracker.held

    def _make_ready(self, segment: Segment, *, is_new: bool) -> None:
        """See to it that the tracker can close connections that lanes stand for."""
        earliest = int(self._totals["earliest"][0])
        is_late = segment.captured_at - earliest > IDLE_AFTER
        is_full = is_new and len(self._tracker.connections) >= self._max_connections
        is_heavy = self._totals["held"][0] + _most_held(segment) > self._max_held
        if is_late or is_full or is_heavy:
            self._roster.restore_order()
            for connection in self._tracker.connections:
                self._roster.hand_back(connection, self._gathering.data)
                if not (is_heavy or _is_idle(connection, segment)):
                    break
        if is_late:
            staying = dropwhile(lambda connection: _is_idle(connection, segment), self._tracker.connections)
            earliest = min((connection.last_seen_at for connection in staying), default=_LATEST_TIME)
        self._totals["earliest"] = min(earliest, segment.captured_at)

    def _book(self, records: list[Record]) -> None:
        for record in records:
            self._gathering.add(record, self._roster.lane_of_record(record))


def _is_idle(connection: Connection, segment: Segment) -> bool:
    return segment.captured_at - connection.last_seen_at > IDLE_AFTER


def _most_held(segment: Segment) -> int:
    """Tell by how much a segment may add to what is held: more than its bytes, if it begins many frames."""
    return OWED_COST * (1 + len(segment.payload))
