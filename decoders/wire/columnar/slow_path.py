"""The slow path: the scalar tracker processes the packets that are out of the ordinary.

Before it does, the connections that a packet may concern get their state back from their flows. Afterwards
the packet's connection is offloaded if its traffic is ordinary again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import dropwhile, groupby

import numpy as np
from numpy.typing import NDArray

from decoders.frame.record import Record
from decoders.retention import KEPT_FOR
from decoders.wire.columnar.flow_table import FlowTable, LazyConnections
from decoders.wire.columnar.frames import FrameBatchBuilder
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.columnar.segments import SegmentBatch, scalar_segment
from decoders.wire.columnar.tls_ahead import TlsAhead
from decoders.wire.connection import Connection
from decoders.wire.eviction import evicted_at_once, max_half_open
from decoders.wire.pairing import IN_FLIGHT_COST
from decoders.wire.segment import Segment
from decoders.wire.tracker import Tracker

LATEST_TIME = np.iinfo(np.int64).max


class SlowPath:
    """Processes single packets of a batch. `begin_batch` must be called before any is.

    `rows` are the packets that it has processed of the batch.

    `totals` has dtype TOTALS. `max_connections` and `max_held` are those of the scalar tracker.
    """

    def __init__(
        self,
        tracker: Tracker,
        flow_table: FlowTable,
        lazy: LazyConnections,
        tls: TlsAhead,
        totals: NDArray[np.void],
        *,
        max_connections: int,
        max_held: int,
    ) -> None:
        self._tracker = tracker
        self._flow_table = flow_table
        self._lazy = lazy
        self._tls = tls
        # Looking a field up takes longer than reading it, and each packet needs all of them.
        self._first_packet, self._next_sequence = totals["packets"], totals["next_sequence"]
        self._earliest, self._held, self._waits_until = (
            totals[name] for name in ("earliest", "held", "waits_until")
        )
        self._max_connections = max_connections
        self._max_held = max_held

    def begin_batch(
        self,
        packets: PacketBatch,
        segments: SegmentBatch,
        pairs: NDArray[np.int64],
        builder: FrameBatchBuilder,
    ) -> None:
        """Take over the packets of a batch, their segments and socket pairs, and where frames are added."""
        self._packets = packets
        self._segments = segments
        self._pairs = pairs
        self._builder = builder
        self.rows: list[int] = []

    def run(self, row: int) -> bool:
        """Process a packet. Returns False if it belongs to a flow that was not linked to its pair before.

        Such a flow may be offloaded, so the fast path tries the packet again.
        """
        pair = self._pairs.item(row)
        self.rows.append(row)
        segment = scalar_segment(self._packets, self._segments, row)
        self._flow_table.packet = self._first_packet.item() + row
        if pair >= 0:
            self._lazy.adopt(pair)
        connection = self._flow_table.linked(pair) or self._tracker.find(segment)
        if connection is not None:
            if self._flow_table.link(pair, self._flow_table.flow_of(connection)):
                return False
            self._restore(connection)
        self._prepare_closings(segment)
        self._process(segment, connection)
        if connection is None or connection.is_closed:
            connection = self._tracker.find(segment)
        if connection is not None:
            flow = self._flow_table.mark_seen(connection, self._flow_table.packet)
            self._flow_table.link(pair, flow)
            lower_is_client = self._segments.forward.item(row) == (segment.source == connection.client)
            if self._flow_table.stays(flow):
                return True
            if connection.decryption is None:
                self._flow_table.offload(connection, lower_is_client, self._builder)
            elif connection.can_be_offloaded:
                self._tls.note(flow, connection, lower_is_client=lower_is_client)
        return True

    def stay(self, row: int, end: int) -> int:
        """Process packets up to a row while their connections are not offloaded, and return the next row.

        The fast path would refuse each of them, and entering it takes longer than processing one packet of
        TLS.
        """
        while row < end and self._is_refused(row) and self.run(row):
            row += 1
        return row

    def try_keys(self) -> None:
        """Decrypt what is held of connections whose secrets have become known since the latest batch."""
        self._tracker.held = int(self._held[0])
        self._add_records(self._tracker.try_keys())
        self._note_held()

    def finish(self) -> None:
        """Add the records of all bytes that the scalar tracker holds at the end of the source."""
        self.restore_order()
        self.restore_all()
        self._add_records(self._tracker.finish())

    def restore_order(self) -> None:
        """Give the scalar tracker all open connections, in the order of their latest packets."""
        self._lazy.adopt_all()
        self._flow_table.restore_order()

    def restore_all(self) -> None:
        """Copy the state of all connections that the scalar tracker knows back from their flows."""
        for connection in self._tracker.connections:
            # A connection that the current segment opens has no flow yet.
            if self._flow_table.has_flow(connection):
                self._restore(connection)

    def make_room(self, segment: Segment) -> Iterator[Record]:
        """Evict the connections that have come least far, if there is no room for another one.

        Nearly all that a flood opens are lazy and hold nothing: their ends are columns.
        """
        table, most = self._flow_table, self._max_connections
        if table.open < most and table.half_open < max_half_open(most):
            return
        for unspoken, group in groupby(table.least(evicted_at_once(most)), table.is_unspoken):
            flows = list(group)
            if unspoken and not self._tracker.notifies_ends:
                first = self._next_sequence.item()
                self._next_sequence[0] += len(flows)
                self._builder.changes.append(self._lazy.evict(flows, first, segment))
                continue
            for flow in flows:
                connection = self._lazy.adopted(flow)
                self._restore(connection)
                yield from self._tracker.evict(connection, segment)

    def _restore(self, connection: Connection) -> None:
        """Copy the state of a connection back from its flow, if it is offloaded."""
        flow = self._flow_table.flow_of(connection)
        if self._flow_table.flows.states[flow]["offloaded"]:
            self._tls.restore(flow)
            self._flow_table.restore(connection, self._builder)

    def _process(self, segment: Segment, known: Connection | None) -> None:
        self._tracker.held = self._held.item()
        self._add_records(self._tracker.process(segment, known))
        self._note_held()

    def _note_held(self) -> None:
        """Pass to the fast path how much connections hold, and until when they wait."""
        self._held[0] = self._tracker.held
        until = self._tracker.waits_until
        self._waits_until[0] = LATEST_TIME if until is None else until

    def _is_refused(self, row: int) -> bool:
        """Whether the fast path would refuse a packet, because its connection is not offloaded."""
        pair = self._pairs.item(row)
        if pair < 0:
            return False
        flow = self._flow_table.flow_of_pair.item(pair)
        return flow >= 0 and not self._flow_table.flows.states[flow]["offloaded"]

    def _prepare_closings(self, segment: Segment) -> None:
        """Restore the connections that the scalar tracker may close before it processes a segment.

        Near the memory limit only the order is restored, so that an attacker cannot force a full copy per
        packet. The connections are restored when the tracker evicts (`before_eviction`).
        """
        earliest = self._earliest.item()
        is_late = segment.captured_at - earliest > KEPT_FOR
        if is_late or self._may_exceed(segment):
            self.restore_order()
        if is_late:
            for connection in self._tracker.connections:
                self._restore(connection)
                if not _is_idle(connection, segment):
                    break
        if is_late:
            staying = dropwhile(lambda connection: _is_idle(connection, segment), self._tracker.connections)
            earliest = min((connection.last_seen_at for connection in staying), default=LATEST_TIME)
        self._earliest[0] = min(earliest, segment.captured_at)

    def _may_exceed(self, segment: Segment) -> bool:
        """Whether the connections may hold more than they are allowed to after a segment."""
        held, size = int(self._held.item()), len(segment.payload)
        # Buffered bytes are a part of those held.
        if held + _max_added(size + held) <= self._max_held:
            return False
        # Connections that give up a wait, or get what they waited for, process their buffered bytes, too.
        processed = {*self._tracker.overdue(segment.captured_at), self._tracker.find(segment)}
        buffered = sum(connection.unprocessed for connection in processed if connection is not None)
        return held + _max_added(size + buffered) > self._max_held

    def _add_records(self, records: Iterable[Record]) -> None:
        for record in records:
            self._builder.add(record, self._flow_table.flow_of_record(record))


def _is_idle(connection: Connection, segment: Segment) -> bool:
    return segment.captured_at - connection.last_seen_at > KEPT_FOR


def _max_added(size: int) -> int:
    """Return an upper bound of the memory that a payload takes: each byte may be a request in flight."""
    return IN_FLIGHT_COST * (1 + size)
