"""All connections of a source, a batch of packets at a time: packets in, columns of frames out.

The results equal those of `decoders.wire.tracker`, record for record and byte for byte of the ledger. That
tracker opens and closes connections, and processes every packet that is out of the ordinary (the slow path).
While a connection's traffic is ordinary its state is offloaded to a flow, which compiled code updates without
a call to Python (the fast path). Both number records in the order of the packets, from one sequence.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import dropwhile

import numpy as np

from decoders.codec.columnar.acknowledgement import produce_layouts
from decoders.frame.record import Record
from decoders.retention import KEPT_FOR
from decoders.schema.registry import Schemas
from decoders.tls.key_log import KeyLog
from decoders.wire.assembly import MAX_FRAME
from decoders.wire.columnar.fast_path import (
    CHANGE,
    DONE,
    LIMITS,
    OUT_OF_BYTES,
    OUT_OF_FLOWS,
    OUT_OF_ROWS,
    OUT_OF_SLOTS,
    PACKET,
    PORT_BYTES,
    TOTALS,
    FastPathState,
)
from decoders.wire.columnar.flow_table import NO_FLOW, FlowTable
from decoders.wire.columnar.flows import FLOW, STREAM
from decoders.wire.columnar.frames import FrameBatch, FrameBatchBuilder
from decoders.wire.columnar.kernel import run_fast_path
from decoders.wire.columnar.lazy_connections import LazyConnections
from decoders.wire.columnar.offload import opened
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.columnar.scalar_segment import scalar_segment
from decoders.wire.columnar.segments import read_segments
from decoders.wire.columnar.socket_pairs import NO_PAIR, NO_SEGMENT, SocketPairs
from decoders.wire.columnar.tls_ahead import TlsAhead
from decoders.wire.connection import Connection
from decoders.wire.frame_detector import ExcludesClient
from decoders.wire.kafka_layer import SETTLING_TIME
from decoders.wire.ledger import Ledger, SkipReason
from decoders.wire.pairing import IN_FLIGHT_COST, MAX_AGE, MAX_IN_FLIGHT
from decoders.wire.recorder import ShownClient, as_it_is
from decoders.wire.segment import Segment, Skipped, TcpFlag, read_segment
from decoders.wire.tracker import MAX_CONNECTIONS, MAX_HELD, OnEnd, Tracker

_LATEST_TIME = np.iinfo(np.int64).max
MAX_PAIRS = 1 << 20
"""Socket pairs are numbered anew when there are more: most of their connections are closed by then."""
_FLOWS_MADE_READY = 1024
_OPENS = int(TcpFlag.SYN | TcpFlag.ACK)


class ColumnarTracker:
    """Follows every connection to the watched ports.

    Batches must be fed in the order of their packets. `ledger` is up to date between two calls.
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
        on_end: OnEnd | None = None,
        excludes_client: ExcludesClient | None = None,
        key_log: KeyLog | None = None,
        shown_client: ShownClient = as_it_is,
    ) -> None:
        """Watch `ports`, or every port if there are none. The other arguments are those of `Tracker`."""
        self._totals = np.zeros(1, TOTALS)
        self._totals["packets"], self._totals["next_sequence"], self._totals["earliest"] = 1, 1, _LATEST_TIME
        self._totals["waits_until"] = _LATEST_TIME
        names = ("packets", "next_sequence", "earliest", "held", "waits_until")
        # To look a field up takes longer than to read it, and each packet out of the ordinary needs them all.
        self._first_packet, self._next_sequence, self._earliest, self._held, self._waits_until = (
            self._totals[name] for name in names
        )
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
            on_end=on_end,
            excludes_client=excludes_client,
            key_log=key_log,
            shown_client=shown_client,
            before_eviction=self._restore_all,
            before_remembering=self._remember_ended,
        )
        self._port_bytes = np.zeros(1 + len(self._tracker.port_ledgers), PORT_BYTES)
        self._drafts = tuple(np.zeros(1, kind) for kind in (PACKET, FLOW, STREAM, TOTALS))
        self._max_connections = max_connections
        self._max_held = max_held
        limits = (KEPT_FOR, SETTLING_TIME, MAX_AGE, max_frame, max_held, MAX_IN_FLIGHT, IN_FLIGHT_COST)
        self._limits = np.array([limits], LIMITS)
        self._watched = np.full(1 << 16, not ports)
        self._watched[list(ports)] = True
        self._socket_pairs = SocketPairs(self._watched)
        self._layouts = produce_layouts(schemas)
        self._known_apis = np.zeros(1 << 16, np.bool_)
        self._known_apis[[api.key for api in schemas.apis]] = True
        self._flow_table = FlowTable(self._tracker)
        self._lazy = LazyConnections(self._tracker, self._flow_table, max_connections)
        self._decrypts = key_log is not None
        self._opens = key_log is None and excludes_client is None
        """Whether a connection is ordinary from its SYN on."""
        self._opened_flow, self._opened_stream = opened()
        self._changes = np.zeros(0, CHANGE)
        self._tls = TlsAhead(self._flow_table)
        self._packets = PacketBatch.of([])
        self._segments = read_segments(self._packets)
        self._pairs = np.empty(0, np.int64)
        self._builder = FrameBatchBuilder.for_packets(self._packets)

    @property
    def ledger(self) -> Ledger:
        """The byte ledger of all connections."""
        return self._tracker.ledger

    @property
    def port_ledgers(self) -> Mapping[int, Ledger]:
        """The byte ledgers of the connections to each watched port; none if every port is watched."""
        return self._tracker.port_ledgers

    @property
    def connections(self) -> Collection[Connection]:
        """The open connections. Their attributes are up to date only after `finish`."""
        self._lazy.adopt_all()
        return self._tracker.connections

    def feed(self, packets: PacketBatch) -> FrameBatch:
        """Process the next packets, and return the frames and events that they complete."""
        self._begin_batch(packets)
        self._try_keys()
        begin, end = 0, self._open_window(0)
        self._run(begin, end)
        while end < packets.size:
            self._tls.close()
            begin, end = end, self._open_window(end)
            self._run(begin, end)
        self._tls.close()
        return self._end_batch()

    def _open_window(self, row: int) -> int:
        """Decrypt what comes next, if there is a key log, and return up to which row."""
        if not self._decrypts:
            return self._packets.size
        return self._tls.open(self._packets, self._segments, self._pairs, row, self._builder)

    def _run(self, row: int, end: int) -> None:
        """Process the packets from a row up to another one."""
        self._totals["end"] = end
        while True:
            status, row = run_fast_path(self._fast_path_state(), row)
            self._builder.rows, self._builder.top = self._totals["rows"][0], self._totals["top"][0]
            self._add_changes()
            if status == DONE:
                break
            if status == OUT_OF_ROWS:
                self._builder.grow_rows()
            elif status == OUT_OF_BYTES:
                self._builder.grow_data()
            elif status == OUT_OF_SLOTS:
                self._flow_table.flows.grow_ring(int(self._drafts[0]["flow"][0]))
            elif status == OUT_OF_FLOWS:
                self._flow_table.flows.make_ready(_FLOWS_MADE_READY)
            elif self._run_slow_path(row):
                row = self._stay_on_slow_path(row + 1, end)

    def finish(self) -> FrameBatch:
        """Return what is still held at the end of the source. Open connections get no CLOSED record."""
        self._begin_batch(PacketBatch.of([]))
        self._restore_order()
        self._restore_all()
        self._add_records(self._tracker.finish())
        return self._end_batch()

    def _take_sequence(self) -> int:
        sequence: int = self._next_sequence.item()
        self._next_sequence[0] = sequence + 1
        return sequence

    def _begin_batch(self, packets: PacketBatch) -> None:
        if self._socket_pairs.count > MAX_PAIRS:
            self._socket_pairs = SocketPairs(self._watched)
            self._lazy.adopt_all()
            self._flow_table.forget_pairs()
        self._packets = packets
        self._segments = read_segments(packets)
        self._pairs = self._socket_pairs.number(self._segments)
        self._count_skipped_packets()
        previous, self._builder = self._builder, FrameBatchBuilder.for_packets(packets)
        self._flow_table.begin_batch(self._socket_pairs.count, previous, self._builder)
        if len(self._changes) < packets.size:
            self._changes = np.zeros(2 * packets.size, CHANGE)
        if self._opens:
            begun = int(np.count_nonzero(self._segments.flags & _OPENS == TcpFlag.SYN))
            self._flow_table.flows.make_ready(min(begun, self._max_connections - self._flow_table.open))
        if self._decrypts:
            self._tls.begin_batch(packets.size)

    def _count_skipped_packets(self) -> None:
        """Count the packets that hold no segment; their order does not matter."""
        for row in np.flatnonzero(self._pairs == NO_PAIR).tolist():
            segment = read_segment(self._packets.packet(row))
            if isinstance(segment, Skipped):
                self._pairs[row] = NO_SEGMENT
                self._tracker.ledger.packets[segment.reason] += 1

    def _end_batch(self) -> FrameBatch:
        self._totals["packets"] += self._packets.size
        self._update_ledger()
        return self._builder.build(self._flow_table.openings())

    def _update_ledger(self) -> None:
        """Add what the fast path counted to the ledgers, and reset it."""
        ledger = self._tracker.ledger
        for each, counted in zip(
            (ledger, *self._tracker.port_ledgers.values()), self._port_bytes, strict=True
        ):
            each.capture(int(counted["captured"]))
            each.frame(int(counted["framed"]))
            each.lose(int(counted["lost"]))
            each.skip(SkipReason.AFTER_HOLE, int(counted["after_hole"]))
            each.skip(SkipReason.DUPLICATE, int(counted["duplicate"]))
            each.skip(SkipReason.OPAQUE, int(counted["opaque"]))
            each.skip(SkipReason.EXCLUDED, int(counted["excluded"]))
            each.skip(SkipReason.ENCRYPTED, int(counted["encrypted"]))
            each.skip(SkipReason.TLS, int(counted["tls"]))
        self._port_bytes[:] = np.zeros((), PORT_BYTES)
        ledger.packets["tcp"] += self._take_total("tcp")
        other_port = self._take_total("other_port")
        ledger.capture(other_port)
        ledger.skip(SkipReason.OTHER_PORT, other_port)

    def _take_total(self, name: str) -> int:
        total = int(self._totals[name][0])
        self._totals[name] = 0
        return total

    def _fast_path_state(self) -> FastPathState:
        self._totals["rows"], self._totals["top"] = self._builder.rows, self._builder.top
        self._totals["unnumbered"] = len(self._flow_table.unnumbered)
        flows = self._flow_table.flows
        may_open = self._opens and self._flow_table.knows_all_pairs
        self._totals["open"], self._totals["ready"] = self._flow_table.open, flows.ready_count
        self._totals["max_open"] = self._max_connections if may_open else 0
        return FastPathState(
            self._builder.data,
            self._packets.captured_at,
            self._packets.positions,
            self._segments,
            self._pairs,
            self._flow_table.flow_of_pair,
            flows.states,
            flows.streams,
            flows.rings.slots,
            self._layouts,
            self._known_apis,
            self._limits,
            self._builder.columns,
            self._totals,
            self._port_bytes,
            self._flow_table.latest_syn_of_pair,
            self._watched,
            self._flow_table.port_rows,
            self._opened_flow,
            self._opened_stream,
            flows.ready,
            self._changes,
            self._tls.window,
            *self._drafts,
        )

    def _add_changes(self) -> None:
        """Add the records of connections that the fast path has opened and closed."""
        self._flow_table.flows.ready_count = int(self._totals["ready"][0])
        count = self._take_total("changes")
        if count:
            changes = self._lazy.note(self._changes[:count], self._packets, self._segments)
            self._builder.changes.append(changes)

    def _run_slow_path(self, row: int) -> bool:
        """Process a packet with the scalar tracker. Returns False if it belongs to a flow not linked so far.

        Such a flow may be offloaded, so the fast path tries the packet again.
        """
        pair = self._pairs.item(row)
        segment = self._segment(row, pair)
        if self._opens:
            at = pair if pair >= 0 else self._socket_pairs.find(segment.source, segment.destination)
            if at >= 0:
                self._lazy.adopt(at)
        connection = self._flow_table.linked(pair) or self._tracker.find(segment)
        if connection is not None:
            if pair >= 0 and self._flow_table.link(pair, self._flow_table.flow_of(connection)):
                return False
            self._restore(connection)
        self._prepare_closings(segment, is_new=connection is None)
        self._process_segment(segment, connection)
        if connection is None or connection.is_closed:
            connection = self._tracker.find(segment)
        if connection is not None:
            flow = self._flow_table.mark_seen(connection, self._first_packet.item() + row)
            if pair >= 0:
                self._flow_table.link(pair, flow)
                lower_is_client = self._segments.forward.item(row) == (segment.source == connection.client)
                if connection.decryption is None:
                    self._flow_table.offload(connection, lower_is_client, self._builder)
                elif connection.can_be_offloaded:
                    self._tls.note(flow, connection, lower_is_client=lower_is_client)
            else:
                self._flow_table.note_unnumbered(flow)
        return True

    def _segment(self, row: int, pair: int) -> Segment:
        if pair >= 0:
            return scalar_segment(self._packets, self._segments, row)
        segment = read_segment(self._packets.packet(row))
        assert isinstance(segment, Segment)
        return segment

    def _restore(self, connection: Connection) -> None:
        """Copy the state of a connection back from its flow, if it is offloaded."""
        flow = self._flow_table.flow_of(connection)
        if self._flow_table.flows.states[flow]["offloaded"]:
            self._tls.restore(flow)
            self._flow_table.restore(connection, self._builder.data)

    def _restore_order(self) -> None:
        self._lazy.adopt_all()
        self._flow_table.restore_order()

    def _remember_ended(self) -> None:
        self._lazy.remember_all()

    def _restore_all(self) -> None:
        for connection in self._tracker.connections:
            # The one that a segment opens has no flow before the segment is processed.
            if self._flow_table.has_flow(connection):
                self._restore(connection)

    def _try_keys(self) -> None:
        """Go on with connections whose secrets have become known since the latest batch."""
        self._tracker.held = int(self._held[0])
        self._add_records(self._tracker.try_keys())
        self._note_held()

    def _process_segment(self, segment: Segment, known: Connection | None) -> None:
        self._tracker.held = self._held.item()
        self._add_records(self._tracker.process(segment, known))
        self._note_held()

    def _note_held(self) -> None:
        """Note for the fast path what connections hold, and until when they wait."""
        self._held[0] = self._tracker.held
        until = self._tracker.waits_until
        self._waits_until[0] = _LATEST_TIME if until is None else until

    def _stay_on_slow_path(self, row: int, end: int) -> int:
        """Process packets up to a row while their connections are not offloaded, and return the next row.

        The fast path would refuse each of them. To enter it takes longer than to process one of TLS.
        """
        while row < end and self._is_refused(row) and self._run_slow_path(row):
            row += 1
        return row

    def _is_refused(self, row: int) -> bool:
        """Whether the fast path would refuse a packet, because its connection is new or not offloaded."""
        pair = self._pairs.item(row)
        if pair < 0:
            return False
        flow = self._flow_table.flow_of_pair.item(pair)
        if flow == NO_FLOW:
            return not self._opens
        return flow >= 0 and not self._flow_table.flows.states[flow]["offloaded"]

    def _prepare_closings(self, segment: Segment, *, is_new: bool) -> None:
        """Restore the connections that the scalar tracker may close before it processes a segment.

        If all may come to hold too much, only their order is restored: who keeps them near the limit must not
        make every packet restore all of them. They are restored when connections are in fact evicted.
        """
        earliest = self._earliest.item()
        is_late = segment.captured_at - earliest > KEPT_FOR
        is_full = is_new and self._flow_table.open >= self._max_connections
        is_heavy = self._may_exceed(segment)
        if is_late or is_full or is_heavy:
            self._restore_order()
        if is_late or is_full:
            for connection in self._tracker.connections:
                self._restore(connection)
                if not _is_idle(connection, segment):
                    break
        if is_late:
            staying = dropwhile(lambda connection: _is_idle(connection, segment), self._tracker.connections)
            earliest = min((connection.last_seen_at for connection in staying), default=_LATEST_TIME)
        self._earliest[0] = min(earliest, segment.captured_at)

    def _may_exceed(self, segment: Segment) -> bool:
        """Whether the connections may hold more than they are allowed to after a segment."""
        held, size = int(self._held.item()), len(segment.payload)
        # What is buffered is a part of what is held.
        if held + _max_added(size + held) <= self._max_held:
            return False
        # Connections that give up or receive what they waited for process what they have buffered, too.
        processed = {*self._tracker.overdue(segment.captured_at), self._tracker.find(segment)}
        buffered = sum(connection.unprocessed for connection in processed if connection is not None)
        return held + _max_added(size + buffered) > self._max_held

    def _add_records(self, records: list[Record]) -> None:
        for record in records:
            self._builder.add(record, self._flow_table.flow_of_record(record))


def _is_idle(connection: Connection, segment: Segment) -> bool:
    return segment.captured_at - connection.last_seen_at > KEPT_FOR


def _max_added(size: int) -> int:
    """Return a bound of the bytes that a payload adds to those held, even if it holds many requests."""
    return IN_FLIGHT_COST * (1 + size)
