"""The flow table: which flow belongs to which connection, and when each connection was last seen."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from decoders.frame.record import Closing, Kind, Record
from decoders.wire.closed_connections import ConnectionKey
from decoders.wire.columnar.flows import NO_SYN, Flows
from decoders.wire.columnar.frames import FrameBatchBuilder
from decoders.wire.columnar.offload import offload, restore
from decoders.wire.columnar.openings import Openings, SynColumns
from decoders.wire.connection import Connection
from decoders.wire.tracker import Tracker

NO_FLOW = -1
CLOSED = -2
"""Instead of a flow: the connection of the socket pair is closed, and no other one was opened, unless by a
packet that has no pair."""
UNKNOWN_SYN = -2
"""Instead of an initial sequence number: the scalar tracker knows it."""
_REMEMBERED = (Closing.FIN, Closing.RST)
"""The endings after which a tracker remembers a connection."""


class FlowTable:
    """A flow for every open connection of a tracker.

    `flow_of_pair` (int64) holds the flow of each numbered socket pair, CLOSED if its connection is closed,
    NO_FLOW where it is not known. `latest_syn_of_pair` (int64) is NO_SYN if no connection of the pair is
    remembered as closed. Else it holds the initial sequence number of the latest one in its lower 32 bits,
    and above them whether the lower socket was the client; or it is UNKNOWN_SYN. `unnumbered` holds the flows
    that have no pair, because only the scalar tracker parses the packets of their connections. `port_rows`
    (uint16) says which row of what is counted a port has, 0 if it has none of its own. `unmet` counts the
    open connections that the scalar tracker does not know; all of them have a pair.
    """

    def __init__(self, tracker: Tracker) -> None:
        self.flows = Flows()
        self.flow_of_pair = np.empty(0, np.int64)
        self.latest_syn_of_pair = np.empty(0, np.int64)
        self.unnumbered: set[int] = set()
        self.unmet = 0
        self._unpaired: deque[ConnectionKey] = deque()
        """Connections that are remembered as closed, and of which no pair may be known."""
        self._tracker = tracker
        self.port_rows = np.zeros(1 << 16, np.uint16)
        self.port_rows[list(tracker.port_ledgers)] = range(1, 1 + len(tracker.port_ledgers))
        self._flow_of_id: dict[bytes, int] = {}
        self._connections: dict[int, Connection] = {}
        self._pair_of_flow: dict[int, int] = {}
        self._openings = Openings(tracker.run)
        self._told_openings = Openings(tracker.run)
        self._has_opened = False
        self._ordered_until = 0

    def begin_batch(self, pairs: int, previous: FrameBatchBuilder, current: FrameBatchBuilder) -> None:
        """Prepare for `pairs` socket pairs, and copy frames under assembly from the previous batch's data.

        `current` holds the bytes of the batch's packets so far. Each frame gets room for its share of them,
        so that a few large frames need not be copied again, and many take no more memory than the packets.
        """
        self.flows.begin_batch()
        if pairs > len(self.flow_of_pair):
            more = np.full(2 * pairs - len(self.flow_of_pair), NO_FLOW, np.int64)
            self.flow_of_pair = np.concatenate((self.flow_of_pair, more))
            self.latest_syn_of_pair = np.concatenate((self.latest_syn_of_pair, np.full_like(more, NO_SYN)))
        streams = self.flows.streams
        begun = np.argwhere(streams["filled"] > 0)
        rows = streams[begun[:, 0], begun[:, 1]]
        capacities = np.minimum(rows["size"], rows["filled"] + current.top // max(1, len(begun)))
        current.reserve(int(capacities.sum()))
        for (flow, direction), capacity in zip(begun, capacities.tolist(), strict=True):
            row = streams[flow, direction]
            row["start"] = current.put(previous.data[row["start"] : row["start"] + row["filled"]], capacity)
            row["capacity"] = capacity

    def forget_pairs(self) -> None:
        """Drop the numbers of all socket pairs, before they are numbered anew."""
        self.flow_of_pair = np.empty(0, np.int64)
        self.latest_syn_of_pair = np.empty(0, np.int64)
        self._pair_of_flow.clear()
        self._unpaired = deque(self._tracker.closed.keys)

    @property
    def open(self) -> int:
        """How many connections are open."""
        return len(self._flow_of_id) + self.unmet

    @property
    def knows_all_pairs(self) -> bool:
        """Whether the pairs of all connections are known, those that are open and those remembered."""
        while self._unpaired and self._unpaired[0] not in self._tracker.closed.keys:
            self._unpaired.popleft()
        return not self._unpaired and len(self._pair_of_flow) == len(self._flow_of_id)

    def openings(self) -> Openings:
        """Return the records that opened the connections, by flow: one object until another one opens."""
        if self._has_opened:
            self._has_opened, self._told_openings = False, self._openings.copied(self._told_openings)
        return self._told_openings

    def flow_of(self, connection: Connection) -> int:
        """Return the flow of an open connection."""
        return self._flow_of_id[connection.identity]

    def has_flow(self, connection: Connection) -> bool:
        """Whether a connection's record OPENED was passed to `flow_of_record`."""
        return connection.identity in self._flow_of_id

    def flow_of_record(self, record: Record) -> int:
        """Return the flow of a record's connection. OPENED adds a flow, CLOSED removes it."""
        if record.kind is Kind.OPENED:
            self._open(record)
        flow = self._flow_of_id[record.connection]
        if record.kind is Kind.CLOSED:
            self._close(record, flow)
        return flow

    def linked(self, pair: int) -> Connection | None:
        """Return the connection of a pair whose flow is set, None if it is not or there is no pair."""
        flow = self.flow_of_pair.item(pair) if pair >= 0 else NO_FLOW
        return self._connections.get(flow)

    def link(self, pair: int, flow: int) -> bool:
        """Set the flow of a socket pair. Returns False if it was set already."""
        if self.flow_of_pair.item(pair) == flow:
            return False
        self.flow_of_pair[pair] = flow
        self._pair_of_flow[flow] = pair
        self.unnumbered.discard(flow)
        return True

    def note_unnumbered(self, flow: int) -> None:
        """Note that a flow's latest packet has no pair."""
        if flow not in self._pair_of_flow:
            self.unnumbered.add(flow)

    def mark_seen(self, connection: Connection, packet: int) -> int:
        """Note the number of a connection's latest packet, and return the connection's flow."""
        flow = self.flow_of(connection)
        self._connections[flow] = connection
        self.flows.states[flow]["last_packet"] = packet
        return flow

    def restore(self, connection: Connection, data: NDArray[np.uint8]) -> None:
        """Copy the state of an offloaded connection back from its flow."""
        restore(self.flows, self.flow_of(connection), connection, data)

    def connection(self, flow: int) -> Connection:
        """Return the connection of a flow."""
        return self._connections[flow]

    def opening(self, flow: int) -> Record:
        """Return the record that opened a flow's connection."""
        return self._openings[flow]

    @property
    def syns(self) -> SynColumns:
        """The SYNs that compiled code has met, by flow."""
        return self._openings.columns

    def adopt(self, flow: int, connection: Connection) -> None:
        """Set the connection of a flow that compiled code has opened, and that was unmet."""
        self._connections[flow] = connection
        self._flow_of_id[connection.identity] = flow
        self._pair_of_flow[flow] = self.syns.syns["pair"].item(flow)
        self.unmet -= 1

    def note_opened(self, flows: NDArray[np.int64], columns: SynColumns) -> None:
        """Note connections that compiled code has opened, and that are unmet so far."""
        self._openings.note_all(flows, columns)
        self._has_opened = True
        self.unmet += len(flows)

    def note_closed(self, flow: int, connection: Connection) -> None:
        """Note that compiled code has closed a connection. Its flow must then be released."""
        del self._flow_of_id[connection.identity], self._pair_of_flow[flow], self._connections[flow]

    def offload(self, connection: Connection, lower_is_client: bool, builder: FrameBatchBuilder) -> None:
        """Copy the state of a connection to its flow, if it can be offloaded."""
        flow = self.flow_of(connection)
        port = int(self.port_rows[connection.server.port])
        begun_frames = offload(connection, self.flows, flow, lower_is_client, port)
        for direction, begun in enumerate(begun_frames or ()):
            if begun:
                row = self.flows.streams[flow, direction]
                row["start"], row["filled"], row["capacity"] = builder.put(begun), len(begun), len(begun)

    def restore_order(self) -> None:
        """Update the tracker's order of connections, and when each offloaded one was last seen."""
        states = self.flows.states
        seen = np.flatnonzero(states["last_packet"] > self._ordered_until)
        for flow in seen[np.argsort(states["last_packet"][seen])].tolist():
            connection = self._connections[flow]
            if states[flow]["offloaded"]:
                connection.last_seen_at = int(states[flow]["last_seen_at"])
            self._tracker.touch(connection)
            self._ordered_until = int(states[flow]["last_packet"])

    def _open(self, opening: Record) -> None:
        flow = self.flows.acquire()
        self._flow_of_id[opening.connection] = flow
        self._openings.note(flow, opening)
        self._has_opened = True

    def _close(self, record: Record, flow: int) -> None:
        del self._flow_of_id[record.connection]
        self.flows.release(flow)
        connection = self._connections.pop(flow, None)
        self.unnumbered.discard(flow)
        pair = self._pair_of_flow.pop(flow, None)
        if pair is not None:
            self.flow_of_pair[pair] = CLOSED
            if record.closing in _REMEMBERED:
                self.latest_syn_of_pair[pair] = UNKNOWN_SYN
        elif connection is not None and record.closing in _REMEMBERED:
            self._unpaired.append((connection.client, connection.server))
