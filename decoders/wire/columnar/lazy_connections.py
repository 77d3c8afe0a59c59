"""Connections that compiled code opens and closes, and a `Connection` of one if it is needed.

Most connections of clients that come and go are ordinary from the SYN to the end, and never need one. They
are followed in arrays, many at a time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from decoders.wire.columnar.events import ChangeColumns
from decoders.wire.columnar.flow_table import FlowTable
from decoders.wire.columnar.offload import settle
from decoders.wire.columnar.openings import SYN, SynColumns
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.columnar.segments import SegmentBatch
from decoders.wire.connection import Connection
from decoders.wire.tracker import Tracker


class LazyConnections:
    """The connections that no packet out of the ordinary has met since their SYN, open or ended.

    The scalar tracker does not know the open ones before they are adopted, nor those that have ended before
    it looks at what it remembers. `max_connections` is how many it remembers.
    """

    def __init__(self, tracker: Tracker, flow_table: FlowTable, max_connections: int) -> None:
        self._tracker = tracker
        self._flow_table = flow_table
        self._is_open = np.zeros(0, np.bool_)
        """By flow."""
        self._ended: list[tuple[SynColumns, NDArray[np.int64]]] = []
        """Those to remember, with the times of their ends, in their order."""
        self._ended_count = 0
        self._max_connections = max_connections

    def adopt(self, pair: int) -> None:
        """Make the connection of a socket pair known to the scalar tracker."""
        flow = self._flow_table.flow_of_pair[pair]
        if 0 <= flow < len(self._is_open) and self._is_open[flow]:
            self._adopt(int(flow))

    def adopt_all(self) -> None:
        """Make all open connections known to the scalar tracker."""
        flows = np.flatnonzero(self._is_open)
        for flow in flows[np.argsort(self._flow_table.syns.syns["sequence"][flows])].tolist():
            self._adopt(flow)

    def remember_all(self) -> None:
        """Let the scalar tracker remember the connections that have ended."""
        ended, self._ended, self._ended_count = self._ended, [], 0
        for columns, closed_at in ended:
            for row, at in enumerate(closed_at.tolist()):
                self._tracker.closed.remember(*columns.client_and_server(row), columns.opening(row), at)

    def _adopt(self, flow: int) -> Connection:
        self._is_open[flow] = False
        syns = self._flow_table.syns
        sockets, opened = syns.client_and_server(flow), self._flow_table.opening(flow)
        connection = self._tracker.adopt(*sockets, syns.opening(flow), opened)
        self._flow_table.adopt(flow, connection)
        return connection

    def note(self, changes: NDArray[np.void], packets: PacketBatch, segments: SegmentBatch) -> ChangeColumns:
        """Note connections that compiled code has opened and closed: rows of dtype CHANGE, in their order.

        Returns them as columns, whose connections are flows.
        """
        if (missing := len(self._flow_table.flows.states) - len(self._is_open)) > 0:
            self._is_open = np.concatenate((self._is_open, np.zeros(missing, np.bool_)))
        is_opening, rows = changes["closing"] == 0, changes["row"]
        noted = ChangeColumns(
            changes["flow"].astype(np.int32),
            changes["sequence"].copy(),
            packets.captured_at[rows],
            packets.positions[rows],
            changes["closing"].copy(),
            np.where(is_opening, 0, 1 + changes["closer"]).astype(np.uint8),
        )
        # Flows are not used again in a batch, so those that open may be noted before those that close.
        if is_opening.any():
            self._open(changes[is_opening], packets, segments)
        if not is_opening.all():
            self._close(changes["flow"][~is_opening], noted.captured_at[~is_opening])
        return noted

    def _open(self, changes: NDArray[np.void], packets: PacketBatch, segments: SegmentBatch) -> None:
        rows, flows = changes["row"], changes["flow"]
        syns = np.empty(len(flows), SYN)
        for name in ("pair", "initial_sequence", "sequence"):
            syns[name] = changes[name]
        syns["lower_is_client"] = segments.forward[rows]
        syns["captured_at"], syns["position"] = packets.captured_at[rows], packets.positions[rows]
        self._flow_table.note_opened(flows, SynColumns(segments.sockets[rows], syns))
        self._is_open[flows] = True

    def _close(self, flows: NDArray[np.int64], closed_at: NDArray[np.int64]) -> None:
        begin = 0
        needs_connection = ~self._is_open[flows] | self._tracker.notifies_ends
        for at in np.flatnonzero(needs_connection).tolist():
            self._end(flows[begin:at], closed_at[begin:at])
            self._end_connection(int(flows[at]), int(closed_at[at]))
            begin = at + 1
        self._end(flows[begin:], closed_at[begin:])
        self._flow_table.flows.release_all(flows)

    def _end_connection(self, flow: int, closed_at: int) -> None:
        connection = self._adopt(flow) if self._is_open[flow] else self._flow_table.connection(flow)
        settle(self._flow_table.flows, flow, connection)
        self._tracker.end(connection, closed_at)
        self._flow_table.note_closed(flow, connection)

    def _end(self, flows: NDArray[np.int64], closed_at: NDArray[np.int64]) -> None:
        """Note the ends of connections that were not adopted."""
        if not len(flows):
            return
        self._is_open[flows] = False
        self._flow_table.unmet -= len(flows)
        self._ended.append((self._flow_table.syns.of(flows), closed_at))
        self._ended_count += len(flows)
        if self._ended_count > 2 * self._max_connections:
            self._forget_earlier()

    def _forget_earlier(self) -> None:
        """Forget ends that the scalar tracker would not remember any more."""
        columns = SynColumns(
            *(np.concatenate(each) for each in zip(*(each for each, _ in self._ended), strict=True))
        )
        closed_at = np.concatenate([at for _, at in self._ended])
        # Of a client and its server only the latest end is remembered.
        keys = 2 * columns.syns["pair"] + columns.syns["lower_is_client"]
        _, last = np.unique(keys[::-1], return_index=True)
        kept = np.sort(len(keys) - 1 - last)[-self._max_connections :]
        self._ended = [(columns.of(kept), closed_at[kept])]
        self._ended_count = len(kept)
