"""All connections of a source, a batch of packets at a time: packets in, columns of frames out.

The results equal those of the scalar tracker (`decoders.wire.tracker`), record for record and byte for byte
of the ledger. While a connection's traffic is ordinary its state is offloaded to a flow, which compiled code
updates without a call to Python: the fast path. It also opens and closes ordinary connections. It stops at a
packet that is out of the ordinary, and the scalar tracker processes that one: the slow path. Both number
records in the order of the packets, from one sequence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from decoders.codec.columnar.acknowledgement import produce_layouts
from decoders.frame.record import NO_TIME
from decoders.keyed_hash import HashKeys
from decoders.schema.registry import Schemas
from decoders.tls.key_log import KeyLog
from decoders.wire.columnar.closings import ColumnarClosings
from decoders.wire.columnar.fast_path import run_fast_path
from decoders.wire.columnar.fast_path_state import (
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
from decoders.wire.columnar.flow_table import FlowTable
from decoders.wire.columnar.flows import FLOW, STREAM
from decoders.wire.columnar.frames import FrameBatch, FrameBatchBuilder
from decoders.wire.columnar.lazy_connections import LazyConnections
from decoders.wire.columnar.offload import add_counts, opened
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.columnar.segments import SocketPairs, read_others, read_segments
from decoders.wire.columnar.slow_path import SlowPath
from decoders.wire.columnar.tls_ahead import TlsAhead
from decoders.wire.eviction import MAX_CONNECTIONS, max_half_open
from decoders.wire.frame_detector import ExcludesClient
from decoders.wire.framing import MAX_FRAME
from decoders.wire.ledger import Ledger, SkipReason
from decoders.wire.pairing import MAX_IN_FLIGHT
from decoders.wire.recorder import ShownClient, as_it_is
from decoders.wire.segment import TcpFlag
from decoders.wire.tracker import MAX_HELD, OnEnd, Tracker

MAX_PAIRS = 1 << 18
"""With more socket pairs, those of connections that are open or remembered are numbered anew.

At most 150,000 are then left. Without a limit, the batch at which the table grows would take too long.
"""
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
        secret: bytes,
        cluster: str = "",
        feeder: str = "",
        max_connections: int = MAX_CONNECTIONS,
        max_held: int = MAX_HELD,
        max_frame: int = MAX_FRAME,
        on_end: OnEnd | None = None,
        excludes_client: ExcludesClient | None = None,
        key_log: KeyLog | None = None,
        shown_client: ShownClient = as_it_is,
        keeps_principals: bool = False,
    ) -> None:
        """Watch `ports`, or every port if there are none. The other arguments are those of `Tracker`.

        `secret` keeps strangers from choosing sockets that are slow to look up.
        """
        self._totals = np.zeros(1, TOTALS)
        self._totals["packets"], self._totals["next_sequence"] = 1, 1
        for field in ("earliest", "oldest", "looked_at", "waits_until"):
            self._totals[field] = NO_TIME
        self._totals["max_open"] = max_connections
        self._totals["max_half_open"] = max_half_open(max_connections)
        self._next_sequence = self._totals["next_sequence"]
        self._tracker = Tracker(
            schemas,
            ports=ports,
            run=run,
            cluster=cluster,
            feeder=feeder,
            max_connections=max_connections,
            max_held=max_held,
            max_frame=max_frame,
            next_sequence=self.take_sequence,
            on_end=on_end,
            excludes_client=excludes_client,
            key_log=key_log,
            shown_client=shown_client,
            before_remembering=self._remember_ended,
            keeps_principals=keeps_principals,
        )
        self._port_bytes = np.zeros(1 + len(self._tracker.port_ledgers), PORT_BYTES)
        self._of_packet = tuple(np.zeros(1, kind) for kind in (PACKET, FLOW, STREAM, TOTALS))
        self._max_connections = max_connections
        self._limits = np.array([(max_frame, max_held, MAX_IN_FLIGHT)], LIMITS)
        self._watched = np.full(1 << 16, not ports)
        self._watched[list(ports)] = True
        self._socket_pairs = SocketPairs(self._watched, HashKeys.of(secret))
        self._layouts = produce_layouts(schemas)
        self._known_apis = np.zeros(1 << 16, np.bool_)
        # If clients may be excluded, the scalar tracker reads each first request, which decides that.
        self._known_apis[[api.key for api in schemas.apis]] = excludes_client is None
        self._flow_table = FlowTable(self._tracker)
        self._lazy = LazyConnections(self._tracker, self._flow_table, max_connections)
        self._decrypts = key_log is not None
        self._opened_flow, self._opened_stream = opened()
        self._changes = np.zeros(0, CHANGE)
        self._tls = TlsAhead(self._flow_table)
        shared = self._tracker, self._flow_table, self._lazy
        self._tracker.closings = closings = ColumnarClosings(
            *shared, self._totals, max_connections=max_connections, max_held=max_held
        )
        self._slow_path = SlowPath(*shared, self._tls, closings=closings, totals=self._totals)
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
    def evicted(self) -> Counter[str]:
        """Connections that were evicted, as the scalar tracker counts them."""
        return self._tracker.evicted

    @property
    def slow_sockets(self) -> NDArray[np.int64]:
        """The sockets of the latest batch's packets that took the slow path, as `SegmentBatch` has them."""
        return self._segments.sockets[self._slow_path.rows]

    def feed(self, packets: PacketBatch) -> FrameBatch:
        """Process the next packets, and return the frames and events that they complete."""
        self._begin_batch(packets)
        self._slow_path.try_keys()
        begin, end = 0, self._open_window(0)
        self._run(begin, end)
        while end < packets.size:
            self._tls.close()
            begin, end = end, self._open_window(end)
            self._run(begin, end)
        self._tls.close()
        return self._end_batch()

    def _open_window(self, row: int) -> int:
        """With a key log, decrypt the next packets. Returns the row behind them."""
        if not self._decrypts:
            return self._packets.size
        return self._tls.open(self._packets, self._segments, self._pairs, row, self._builder)

    def _run(self, row: int, end: int) -> None:
        """Process the packets from a row up to another one."""
        self._totals["end"] = end
        while True:
            status, row = run_fast_path(self._fast_path_state(), row)
            self._flow_table.half_open = int(self._totals["half_open"][0])
            self._builder.rows, self._builder.top = self._totals["rows"][0], self._totals["top"][0]
            self._add_changes()
            if status == DONE:
                break
            if status == OUT_OF_ROWS:
                self._builder.grow_rows()
            elif status == OUT_OF_BYTES:
                self._builder.grow_data()
            elif status == OUT_OF_SLOTS:
                self._flow_table.flows.grow_ring(int(self._of_packet[0]["flow"][0]))
            elif status == OUT_OF_FLOWS:
                self._flow_table.flows.make_ready(_FLOWS_MADE_READY)
            elif self._slow_path.run(row):
                row = self._slow_path.stay(row + 1, end)

    def finish(self) -> FrameBatch:
        """Return the records of all held bytes at the source's end, as `Tracker.finish` does."""
        self._begin_batch(PacketBatch.of([]))
        self._slow_path.finish()
        return self._end_batch()

    def take_sequence(self) -> int:
        """Number a record of this run that follows all others so far."""
        sequence: int = self._next_sequence.item()
        self._next_sequence[0] = sequence + 1
        return sequence

    def _begin_batch(self, packets: PacketBatch) -> None:
        if self._socket_pairs.count + packets.size > MAX_PAIRS:
            self._socket_pairs = self._socket_pairs.chosen(self._lazy.choose_pairs())
        self._packets = packets
        self._segments = read_segments(packets)
        self._tracker.ledger.packets.update(read_others(packets, self._segments))
        self._pairs = self._socket_pairs.number(self._segments)
        previous, self._builder = self._builder, FrameBatchBuilder.for_packets(packets)
        self._flow_table.begin_batch(self._socket_pairs.count, self._pairs, previous, self._builder)
        self._slow_path.begin_batch(packets, self._segments, self._pairs, self._builder)
        if len(self._changes) < packets.size:
            self._changes = np.zeros(2 * packets.size, CHANGE)
        begins = self._segments.parsed & (self._segments.flags & _OPENS == TcpFlag.SYN)
        begun = int(np.count_nonzero(begins))
        self._flow_table.flows.make_ready(min(begun, self._max_connections - self._flow_table.open))
        if self._decrypts:
            self._tls.begin_batch(packets.size)

    def _end_batch(self) -> FrameBatch:
        self._totals["packets"] += self._packets.size
        self._update_ledger()
        return self._builder.build(self._flow_table.openings())

    def _update_ledger(self) -> None:
        """Add what the fast path counted to the ledgers, and reset it."""
        ledger = self._tracker.ledger
        add_counts(self._port_bytes, (ledger, *self._tracker.port_ledgers.values()))
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
        flows = self._flow_table.flows
        self._totals["open"], self._totals["ready"] = self._flow_table.open, flows.ready_count
        self._totals["half_open"] = self._flow_table.half_open
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
            self._flow_table.closer_of_pair,
            self._watched,
            self._flow_table.port_rows,
            self._opened_flow,
            self._opened_stream,
            flows.ready,
            self._changes,
            self._tls.window,
            *self._of_packet,
        )

    def _add_changes(self) -> None:
        """Add the records of connections that the fast path has opened and closed."""
        self._flow_table.flows.ready_count = int(self._totals["ready"][0])
        count = self._take_total("changes")
        if count:
            changes = self._lazy.note(self._changes[:count], self._packets, self._segments)
            self._builder.changes.append(changes)

    def _remember_ended(self) -> None:
        self._lazy.remember_all()
