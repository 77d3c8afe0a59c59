"""The slow path: the scalar tracker processes the packets that are out of the ordinary.

Before it does, the connections that a packet may concern get their state back from their flows. Afterwards
the packet's connection is offloaded if its traffic is ordinary again.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from decoders.frame.record import NO_TIME, Record
from decoders.wire.columnar.closings import ColumnarClosings
from decoders.wire.columnar.flow_table import FlowTable
from decoders.wire.columnar.frames import FrameBatchBuilder
from decoders.wire.columnar.lazy_connections import LazyConnections
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.columnar.segments import SegmentBatch, scalar_segment
from decoders.wire.columnar.tls_ahead import TlsAhead
from decoders.wire.connection import Connection
from decoders.wire.tracker import Tracker

_RECORDS_A_PACKET = 4
"""Records that take about as long to make as processing their packet takes otherwise."""


class SlowPath:
    """Processes single packets of a batch. `begin_batch` must be called before any is.

    `rows` are the packets of the batch that it has processed, each as often as ordinary ones would take as
    long: one that the network card has merged may complete thousands of frames. `totals` has dtype TOTALS.
    """

    def __init__(
        self,
        tracker: Tracker,
        flow_table: FlowTable,
        lazy: LazyConnections,
        tls: TlsAhead,
        *,
        closings: ColumnarClosings,
        totals: NDArray[np.void],
    ) -> None:
        self._tracker = tracker
        self._flow_table = flow_table
        self._lazy = lazy
        self._tls = tls
        self._closings = closings
        # Looking a field up takes longer than reading it, and each packet needs all of them.
        self._first_packet = totals["packets"]
        self._held, self._waits_until = totals["held"], totals["waits_until"]

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
        self._closings.begin_batch(builder, self._restore)

    def run(self, row: int) -> bool:
        """Process a packet, or return False if the fast path must be tried again for it.

        That is so after connections were closed as idle, and when the packet's pair was not linked to its
        flow before, which may be offloaded.
        """
        segment = scalar_segment(self._packets, self._segments, row)
        if self._closings.is_due(segment.captured_at):
            self._add_records(self._closings.close_idle(segment))
            return False
        self._closings.note_packet(segment.captured_at)
        pair = self._pairs.item(row)
        self._flow_table.packet = self._first_packet.item() + row
        if pair >= 0:
            self._lazy.adopt(pair)
        connection = self._flow_table.linked(pair) or self._tracker.find(segment)
        if connection is not None:
            if self._flow_table.link(pair, self._flow_table.flow_of(connection)):
                return False
            self._restore(connection)
        made = self._add_records(self._tracker.process(segment, connection))
        self.rows += [row] * (1 + made // _RECORDS_A_PACKET)
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
        self._add_records(self._tracker.try_keys())

    def finish(self) -> None:
        """Add the records of all bytes that the scalar tracker holds at the end of the source."""
        self._lazy.adopt_all()
        self._flow_table.restore_order()
        for connection in self._tracker.connections:
            self._restore(connection)
        self._add_records(self._tracker.finish())

    def _restore(self, connection: Connection) -> None:
        """Copy the state of a connection back from its flow, if it is offloaded."""
        flow = self._flow_table.flow_of(connection)
        if self._flow_table.flows.states[flow]["offloaded"]:
            self._tls.restore(flow)
            self._flow_table.restore(connection, self._builder)

    def _add_records(self, records: Iterable[Record]) -> int:
        """Add records of the scalar tracker, and update the totals `held` and `waits_until` meanwhile.

        Returns how many there were.
        """
        self._tracker.held = self._held.item()
        made = 0
        for record in records:
            self._builder.add(record, self._flow_table.flow_of_record(record))
            made += 1
        self._held[0] = self._tracker.held
        until = self._tracker.waits_until
        self._waits_until[0] = NO_TIME if until is None else until
        return made

    def _is_refused(self, row: int) -> bool:
        """Whether the fast path would refuse a packet, because its connection is not offloaded."""
        pair = self._pairs.item(row)
        if pair < 0:
            return False
        flow = self._flow_table.flow_of_pair.item(pair)
        return flow >= 0 and not self._flow_table.flows.states[flow]["offloaded"]
