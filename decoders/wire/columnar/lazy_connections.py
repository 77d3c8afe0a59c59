"""Lazy connections: those that only compiled code has met.

A connection that is ordinary from its SYN to its end never needs a `Connection` of the scalar tracker. A
`LazyConnection` stands for it, which holds the numbers in its SYN.

    state       meaning                                       next state
    ----------  --------------------------------------------  ------------------------------------------------
    LAZY        open, and only compiled code has met it       ADOPTED at a packet out of the ordinary, or when
                                                              the tracker needs all connections in their
                                                              order; ENDED when compiled code closes it
    ADOPTED     the scalar tracker has a `Connection` for     REMEMBERED when either code closes it
                it, whose state may be in the flow
    ENDED       closed, and the scalar tracker does not know  REMEMBERED when the tracker looks at its closed
                                                              connections
    REMEMBERED  in the `ClosedConnections` of the tracker     none
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from decoders.wire.closing import Ends
from decoders.wire.columnar.events import SYN, ChangeColumns, LazyConnection, ends_of
from decoders.wire.columnar.flow_table import FlowTable
from decoders.wire.columnar.offload import settle
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.columnar.segments import SegmentBatch
from decoders.wire.connection import Connection
from decoders.wire.tracker import Tracker


class LazyConnections:
    """Follows lazy connections from their SYN until they are adopted or remembered.

    `max_remembered` is how many closed connections the scalar tracker remembers.
    """

    def __init__(self, tracker: Tracker, flow_table: FlowTable, max_remembered: int) -> None:
        self._tracker = tracker
        self._table = flow_table
        self._ended: list[LazyConnection] = []
        """Connections that have ended and are not remembered, in the order of their ends."""
        self._max_remembered = max_remembered

    def adopt(self, pair: int) -> None:
        """Make the connection of a socket pair known to the scalar tracker."""
        flow = self._table.flow_of_pair.item(pair)
        if flow in self._table.lazy:
            self._adopt(flow)

    def adopted(self, flow: int) -> Connection:
        """Return the connection of a flow, known to the scalar tracker."""
        return self._adopt(flow) if flow in self._table.lazy else self._table.connection(flow)

    def adopt_all(self) -> None:
        """Make all open connections known to the scalar tracker, in the order in which they opened."""
        for flow in list(self._table.lazy):
            self._adopt(flow)

    def remember_all(self) -> None:
        """Let the scalar tracker remember the connections that have ended."""
        ended, self._ended = self._ended, []
        for lazy in ended:
            self._tracker.closed.remember(*lazy.sockets, lazy.client_syn, lazy.closed_at, lazy.ends)

    def note(self, changes: NDArray[np.void], packets: PacketBatch, segments: SegmentBatch) -> ChangeColumns:
        """Note connections that compiled code has opened and closed: rows of dtype CHANGE, in their order.

        Returns them as columns, whose connections are flows.
        """
        is_opening, rows = changes["closing"] == 0, changes["row"]
        noted = ChangeColumns(
            changes["flow"].astype(np.int32),
            changes["sequence"].copy(),
            packets.captured_at[rows],
            packets.positions[rows],
            changes["closing"].astype(np.uint8),
            np.where(is_opening, 0, 1 + changes["closer"]).astype(np.uint8),
        )
        # Flows are not used again in a batch, so those that open may be noted before those that close.
        if is_opening.any():
            self._open(changes[is_opening], packets, segments)
        if not is_opening.all():
            self._close(changes[~is_opening], noted.captured_at[~is_opening])
        return noted

    def _open(self, changes: NDArray[np.void], packets: PacketBatch, segments: SegmentBatch) -> None:
        rows, run = changes["row"], self._tracker.run
        said = changes["initial_sequence"], changes["sequence"]
        seen = packets.captured_at[rows], packets.positions[rows], segments.sockets[rows]
        syns = np.column_stack((*said, *seen)).tobytes()
        keys = 2 * changes["pair"] + segments.forward[rows]
        begins = range(0, len(syns), SYN.size)
        lazy = (
            LazyConnection(run, key, syns[begin : begin + SYN.size])
            for key, begin in zip(keys.tolist(), begins, strict=True)
        )
        self._table.note_lazy(changes["flow"].tolist(), lazy)

    def _close(self, changes: NDArray[np.void], closed_at: NDArray[np.int64]) -> None:
        lazies, notifies, flows = self._table.lazy, self._tracker.notifies_ends, changes["flow"]
        ends = self._table.flows.streams["next_sequence"][flows]
        columns = (flows, closed_at, ends[:, 0] | ends[:, 1] << 32, changes["closed"])
        for flow, at, numbers, closed in zip(*(column.tolist() for column in columns), strict=True):
            if flow in lazies and not notifies:
                lazy = lazies.pop(flow)
                lazy.closed_at, lazy.numbers, lazy.closed = at, numbers, closed
                self._ended.append(lazy)
            else:
                self._end_connection(flow, at, ends_of(numbers, closed))
        self._table.flows.release_all(flows)
        if len(self._ended) > 2 * self._max_remembered:
            self._forget_earlier()

    def choose_pairs(self) -> NDArray[np.int64]:
        """Renumber the pairs of connections that are open or remembered. Returns their former numbers."""
        # Twice as many as are remembered, since connections that one packet closes are in no order.
        pairs, numbers = self._table.choose_pairs(2 * self._max_remembered)
        for lazy in (*self._table.lazy.values(), *self._ended):
            lazy.key = 2 * int(numbers[lazy.pair]) + (lazy.key & 1)
        self._ended = [lazy for lazy in self._ended if lazy.key >= 0]
        return pairs

    def _forget_earlier(self) -> None:
        """Forget ends that the scalar tracker would not remember: of the same sockets it keeps the latest."""
        latest: dict[int, LazyConnection] = {}
        for lazy in self._ended:
            latest.pop(lazy.key, None)
            latest[lazy.key] = lazy
        self._ended = list(latest.values())[-self._max_remembered :]

    def _end_connection(self, flow: int, closed_at: int, ends: Ends) -> None:
        connection = self.adopted(flow)
        settle(self._table.flows, flow, connection)
        self._tracker.end(connection, closed_at, ends)
        self._table.note_closed(flow, connection)

    def _adopt(self, flow: int) -> Connection:
        lazy = self._table.lazy.pop(flow)
        connection = self._tracker.adopt(*lazy.sockets, lazy.client_syn, lazy.record)
        self._table.adopt(flow, connection, lazy.pair)
        return connection
