"""The flow table: which flow belongs to which connection, and which record OPENED each flow has.

At the beginning of each batch it also moves the beginnings of incomplete frames into the data of that batch.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from decoders.frame.record import Closing, Kind, Record
from decoders.memory import grown
from decoders.wire.columnar.events import SYN, LazyConnection, OpenedRecords
from decoders.wire.columnar.flows import NO_SYN, TO_BROKER, TO_CLIENT, Flows
from decoders.wire.columnar.frames import FrameBatchBuilder
from decoders.wire.columnar.offload import offload, restore
from decoders.wire.connection import Connection
from decoders.wire.eviction import Standing
from decoders.wire.tracker import Tracker

NO_FLOW = -1
CLOSED = -2
"""Instead of a flow: the connection of the socket pair is closed, and none has been opened since."""
UNKNOWN_SYN = -2
"""Instead of an initial sequence number: only the scalar tracker knows it."""
MAX_COPIED = 64 * 1024 * 1024
"""Bytes of frames under assembly that are copied to flows during a batch. Its data keeps each copy, so more
connections stay with the scalar tracker until the next batch."""
_FEW_BEGINNINGS = 64
"""At most so many frames under assembly are all copied from batch to batch, if they have no more bytes than
the batch."""
_PACKET_BITS = 48
_REMEMBERED = (Closing.FIN, Closing.RST)
"""The endings after which a tracker remembers a connection."""


class FlowTable:
    """A flow for every open connection of a tracker.

    `flow_of_pair` (int64) holds the flow of each numbered socket pair, CLOSED if its connection is closed,
    NO_FLOW where it is not known. `latest_syn_of_pair` (int64) is NO_SYN if no connection of the pair is
    remembered as closed. Else it holds the initial sequence number of the latest one in its lower 32 bits,
    and above them whether the lower socket was the client; or it is UNKNOWN_SYN. `closer_of_pair`
    (int64) is then the number of the packet that closed it, else 0. `port_rows` (uint16) has the row in which
    the bytes of each port are counted; row 0 is shared by ports that are not named. `lazy` has the open lazy
    connections by flow, in the order in which they opened; `half_open` connections are half-open. `packet` is
    the number of the scalar tracker's latest packet.
    """

    def __init__(self, tracker: Tracker) -> None:
        self.flows = Flows()
        self.flow_of_pair = np.empty(0, np.int64)
        self.latest_syn_of_pair = np.empty(0, np.int64)
        self.closer_of_pair = np.empty(0, np.int64)
        self.packet = 0
        self._tracker = tracker
        self.port_rows = np.zeros(1 << 16, np.uint16)
        self.port_rows[list(tracker.port_ledgers)] = range(1, 1 + len(tracker.port_ledgers))
        self._flow_of_id: dict[bytes, int] = {}
        self._connections: dict[int, Connection] = {}
        self._pair_of_flow: dict[int, int] = {}
        self.lazy: dict[int, LazyConnection] = {}
        self._opened: list[Record | LazyConnection] = []
        self._unused = LazyConnection(tracker.run, 0, bytes(SYN.size))
        """The entry of unused flows."""
        self._openings: OpenedRecords | None = None
        """A copy of `_opened`, None if connections have opened since it was made."""
        self._ordered_until = 0
        self.half_open = 0
        self._apart: dict[tuple[int, int], bytes] = {}
        """Beginnings of frames that are in no batch's data, by flow and direction."""
        self._is_apart = np.zeros((0, 2), np.bool_)
        self._copied_at_most = MAX_COPIED

    def begin_batch(
        self, count: int, pairs: NDArray[np.int64], previous: FrameBatchBuilder, current: FrameBatchBuilder
    ) -> None:
        """Prepare for `count` socket pairs and the next packets, whose pairs are `pairs`.

        The beginnings of frames that the packets may continue are copied from the previous batch's data to
        the current one's, which holds the bytes of the packets so far. If there are many beginnings, those of
        other connections are kept apart, so that each batch copies only those that its packets or those of
        the batch before it touch.
        """
        self.flows.begin_batch()
        self._copied_at_most = MAX_COPIED
        self.flow_of_pair = grown(self.flow_of_pair, count, NO_FLOW)
        self.latest_syn_of_pair = grown(self.latest_syn_of_pair, count, NO_SYN)
        self.closer_of_pair = grown(self.closer_of_pair, count)
        self._copy_beginnings(pairs, previous, current)

    def _copy_beginnings(
        self, pairs: NDArray[np.int64], previous: FrameBatchBuilder, current: FrameBatchBuilder
    ) -> None:
        streams, used = self.flows.streams, current.top
        self._is_apart = grown(self._is_apart, len(streams))
        # The streams of a flow that is not offloaded are stale.
        are_begun = (streams["filled"] > 0) & self.flows.states["offloaded"][:, np.newaxis]
        begun = np.argwhere(are_begun & ~self._is_apart)
        rows = streams[begun[:, 0], begun[:, 1]]
        are_many = len(begun) > _FEW_BEGINNINGS or int(rows["filled"].sum()) > used
        if are_many or self._apart:
            touched = self._touched(pairs)
            if are_many:
                self._put_apart(begun[~touched[begun[:, 0]]], previous)
            begun = np.argwhere(are_begun & (touched[:, np.newaxis] | ~self._is_apart))
            rows = streams[begun[:, 0], begun[:, 1]]
        # Each frame gets room for an equal share of the batch's bytes. So a few large frames need not be
        # copied again, and many take no more memory than the packets.
        capacities = np.minimum(rows["size"], rows["filled"] + used // max(1, len(begun)))
        current.reserve(int(capacities.sum()))
        for (flow, direction), capacity in zip(begun.tolist(), capacities.tolist(), strict=True):
            row = streams[flow, direction]
            apart = self._take_apart(flow, direction)
            content = previous.data[row["start"] : row["start"] + row["filled"]] if apart is None else apart
            row["start"], row["capacity"] = current.put(content, capacity), capacity

    def _touched(self, pairs: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return for each flow whether one of the packets with these pairs belongs to it."""
        touched = np.zeros(len(self.flows.streams), np.bool_)
        flows = self.flow_of_pair[pairs[pairs >= 0]]
        touched[flows[flows >= 0]] = True
        return touched

    def _put_apart(self, begun: NDArray[np.int64], previous: FrameBatchBuilder) -> None:
        for flow, direction in begun.tolist():
            row = self.flows.streams[flow, direction]
            content = previous.data[row["start"] : row["start"] + row["filled"]].tobytes()
            self._apart[flow, direction] = content
            self._is_apart[flow, direction] = True

    def _take_apart(self, flow: int, direction: int) -> bytes | None:
        """Return the beginning of a frame that is kept apart, None if it is not."""
        content = self._apart.pop((flow, direction), None)
        if content is not None:
            self._is_apart[flow, direction] = False
        return content

    def choose_pairs(self, remembered: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Renumber the pairs of open connections, and of the `remembered` ones that were closed last.

        Returns the former numbers of these pairs, rising, and the new number of each former one, -1 if it
        has none.
        """
        closed = np.flatnonzero(self.closer_of_pair)
        if len(closed) > remembered:
            closed = closed[np.argpartition(self.closer_of_pair[closed], -remembered)[-remembered:]]
        pairs = np.union1d(np.flatnonzero(self.flow_of_pair >= 0), closed)
        numbers = np.full(len(self.flow_of_pair), -1)
        numbers[pairs] = np.arange(len(pairs))
        self.flow_of_pair, self.closer_of_pair = self.flow_of_pair[pairs], self.closer_of_pair[pairs]
        self.latest_syn_of_pair = self.latest_syn_of_pair[pairs]
        self._pair_of_flow = {flow: int(numbers[pair]) for flow, pair in self._pair_of_flow.items()}
        return pairs, numbers

    @property
    def open(self) -> int:
        """How many connections are open."""
        return len(self._flow_of_id) + len(self.lazy)

    def openings(self) -> OpenedRecords:
        """Return the records OPENED, by flow: one object until another connection opens."""
        if self._openings is None:
            self._openings = OpenedRecords(self._opened.copy())
        return self._openings

    def flow_of(self, connection: Connection) -> int:
        """Return the flow of an open connection."""
        return self._flow_of_id[connection.identity]

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
        """Set the flow of a socket pair. Returns False if it was set before."""
        if self.flow_of_pair.item(pair) == flow:
            return False
        self.flow_of_pair[pair] = flow
        self._pair_of_flow[flow] = pair
        return True

    def mark_seen(self, connection: Connection, packet: int) -> int:
        """Note the number of a connection's latest packet, and return the connection's flow."""
        flow = self.flow_of(connection)
        self._connections[flow] = connection
        state = self.flows.states[flow]
        self.half_open += connection.standing.is_half_open - self._is_half_open(flow)
        state["standing"] = connection.standing
        state["last_packet"], state["last_seen_at"] = packet, connection.last_seen_at
        return flow

    def _is_half_open(self, flow: int) -> bool:
        return Standing(int(self.flows.states[flow]["standing"])).is_half_open

    def least(self, count: int) -> list[int]:
        """Return `count` flows in the order of eviction: connections that have come least far come first."""
        states = self.flows.states
        flows = np.flatnonzero(states["standing"])
        order = states["standing"][flows] << _PACKET_BITS | states["last_packet"][flows]
        if count < len(flows):
            first = np.argpartition(order, count - 1)[:count]
            flows, order = flows[first], order[first]
        least: list[int] = flows[np.argsort(order)].tolist()
        return least

    def heaviest(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the flows of all connections and the bytes that they hold, the one that holds most first."""
        flows, states = self.open_flows(), self.flows.states
        held = states["held"][flows]
        for place in np.flatnonzero(~states["offloaded"][flows]).tolist():
            held[place] = self._connections[flows.item(place)].counted_held
        order = np.lexsort((states["last_packet"][flows], -held))
        return flows[order], held[order]

    def open_flows(self) -> NDArray[np.int64]:
        """Return the flows of all open connections."""
        return np.fromiter(chain(self.lazy, self._flow_of_id.values()), np.int64, self.open)

    def drop(self, flows: list[int]) -> None:
        """Note that offloaded connections are closed and not remembered, and release their flows."""
        for flow in flows:
            lazy = self.lazy.pop(flow, None)
            pair = self._drop_adopted(flow) if lazy is None else lazy.pair
            if pair is not None:
                self.flow_of_pair[pair] = CLOSED
            for direction in (TO_BROKER, TO_CLIENT) if self._apart else ():
                self._take_apart(flow, direction)
        numbers = np.array(flows)
        self.half_open -= int(np.count_nonzero(self.flows.states["standing"][numbers] < Standing.SILENT))
        self.flows.release_all(numbers)

    def _drop_adopted(self, flow: int) -> int | None:
        """Drop a connection that the scalar tracker knows. Returns its socket pair, None if it has none."""
        connection = self._connections.pop(flow)
        del self._flow_of_id[connection.identity]
        self._tracker.drop(connection)
        return self._pair_of_flow.pop(flow, None)

    def restore(self, connection: Connection, builder: FrameBatchBuilder) -> None:
        """Copy the state of an offloaded connection back from its flow."""
        flow = self.flow_of(connection)
        for direction in (TO_BROKER, TO_CLIENT) if self._apart else ():
            content = self._take_apart(flow, direction)
            if content is not None:
                self.flows.streams[flow, direction]["start"] = builder.put(content)
        restore(self.flows, flow, connection, builder.data)

    def stays(self, flow: int) -> bool:
        """Whether the scalar tracker keeps a flow, of which it has just processed a packet.

        Copying a connection to its flow and back takes time for each request in flight and each byte under
        assembly, so the scalar tracker first processes as many packets as take that long.
        """
        state = self.flows.states[flow]
        if not state["stays"]:
            return False
        state["stays"] -= 1
        return True

    def connection(self, flow: int) -> Connection:
        """Return the connection of a flow."""
        return self._connections[flow]

    def adopt(self, flow: int, connection: Connection, pair: int) -> None:
        """Set the connection of a flow that was lazy."""
        self._connections[flow] = connection
        self._flow_of_id[connection.identity] = flow
        self._pair_of_flow[flow] = pair

    def note_lazy(self, flows: list[int], opened: Iterable[LazyConnection]) -> None:
        """Note the connections of flows that compiled code has opened."""
        self._reserve(max(flows))
        entries, lazy = self._opened, self.lazy
        for flow, each in zip(flows, opened, strict=True):
            entries[flow] = lazy[flow] = each

    def note_closed(self, flow: int, connection: Connection) -> None:
        """Note that compiled code has closed a connection. Its flow must then be released."""
        del self._flow_of_id[connection.identity], self._pair_of_flow[flow], self._connections[flow]

    def offload(self, connection: Connection, lower_is_client: bool, builder: FrameBatchBuilder) -> None:
        """Copy the state of a connection to its flow, if it can be offloaded."""
        if connection.assembled > self._copied_at_most:
            return
        flow = self.flow_of(connection)
        port = int(self.port_rows[connection.server.port])
        begun_frames = offload(connection, self.flows, flow, lower_is_client, port)
        for direction, begun in enumerate(begun_frames or ()):
            if begun:
                self._copied_at_most -= len(begun)
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
        self._reserve(flow)
        self._opened[flow] = opening

    def _reserve(self, flow: int) -> None:
        """Make room for the record OPENED of a flow, which is then set."""
        missing = flow + 1 - len(self._opened)
        if missing > 0:
            # At least as many again, so that a flood of openings does not copy all of them each time.
            self._opened += [self._unused] * max(missing, len(self._opened))
        self._openings = None

    def _close(self, record: Record, flow: int) -> None:
        del self._flow_of_id[record.connection]
        self.half_open -= self._is_half_open(flow)
        self.flows.release_all(np.array([flow]))
        self._connections.pop(flow, None)
        pair = self._pair_of_flow.pop(flow, None)
        if pair is not None:
            self.flow_of_pair[pair] = CLOSED
            if record.closing in _REMEMBERED:
                self.latest_syn_of_pair[pair] = UNKNOWN_SYN
                self.closer_of_pair[pair] = self.packet
