"""Which lane stands for which connection, and in which order the connections were heard."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from decoders.frame.record import Kind, Record
from decoders.wire.columnar.gathering import Gathering
from decoders.wire.columnar.handover import hand_back, take_over
from decoders.wire.columnar.lanes import Lanes
from decoders.wire.connection import Connection
from decoders.wire.tracker import Tracker

NO_LANE = -1


class Roster:
    """A lane for every open connection of a tracker.

    `lane_of_pair` gives the lane of each numbered pair of sockets, where it is known.
    """

    def __init__(self, tracker: Tracker) -> None:
        self.lanes = Lanes()
        self.lane_of_pair = np.empty(0, np.int64)
        self._tracker = tracker
        self._lane_of_id: dict[bytes, int] = {}
        self._connections: dict[int, Connection] = {}
        self._pair_of_lane: dict[int, int] = {}
        self._openings: list[Record] = []
        self._ordered_until = 0

    def begin(self, pairs: int, earlier: Gathering, now: Gathering) -> None:
        """Begin a batch with so many pairs of sockets, and take along what the one before left unfinished."""
        self.lanes.begin()
        if pairs > len(self.lane_of_pair):
            more = np.full(2 * pairs - len(self.lane_of_pair), NO_LANE, np.int64)
            self.lane_of_pair = np.concatenate((self.lane_of_pair, more))
        streams = self.lanes.streams
        for lane, direction in np.argwhere(streams["filled"] > 0):
            row = streams[lane, direction]
            row["start"] = now.put(earlier.data[row["start"] : row["start"] + row["filled"]])
            row["capacity"] = row["filled"]

    def forget_pairs(self) -> None:
        """Have done with the numbers of pairs: each is told anew."""
        self.lane_of_pair = np.empty(0, np.int64)
        self._pair_of_lane.clear()

    def openings(self) -> list[Record]:
        """Give the records that opened the connections, by lane."""
        return self._openings.copy()

    def lane_of(self, connection: Connection) -> int:
        """Give the lane of an open connection."""
        return self._lane_of_id[connection.identity]

    def lane_of_record(self, record: Record) -> int:
        """Give the lane of the connection that a record is of, and take note of openings and closings."""
        if record.kind is Kind.OPENED:
            self._open(record)
        lane = self._lane_of_id[record.connection]
        if record.kind is Kind.CLOSED:
            self._close(record.connection, lane)
        return lane

    def link(self, pair: int, lane: int) -> bool:
        """Note whose pair it is; tells whether that was not known."""
        if self.lane_of_pair[pair] == lane:
            return False
        self.lane_of_pair[pair] = lane
        self._pair_of_lane[lane] = pair
        return True

    def heard(self, connection: Connection, packet: int) -> int:
        """Note that the scalar tracker heard a connection in a packet, and give its lane."""
        lane = self.lane_of(connection)
        self._connections[lane] = connection
        self.lanes.states[lane]["last_packet"] = packet
        return lane

    def hand_back(self, connection: Connection, data: NDArray[np.uint8]) -> None:
        """Let the connection have its state again, if a lane has it."""
        lane = self.lane_of(connection)
        if self.lanes.states[lane]["calm"]:
            hand_back(self.lanes, lane, connection, data)

    def take_over(self, connection: Connection, lower_is_client: bool, gathering: Gathering) -> None:
        """Let a lane stand for the connection, if it is calm."""
        lane = self.lane_of(connection)
        for direction, begun in enumerate(take_over(connection, self.lanes, lane, lower_is_client) or ()):
            if begun:
                row = self.lanes.streams[lane, direction]
                row["start"], row["filled"], row["capacity"] = gathering.put(begun), len(begun), len(begun)

    def restore_order(self) -> None:
        """Let the tracker know when each connection was heard last, and in which order."""
        states = self.lanes.states
        heard = np.flatnonzero(states["last_packet"] > self._ordered_until)
        for lane in heard[np.argsort(states["last_packet"][heard])].tolist():
            connection = self._connections[lane]
            if states[lane]["calm"]:
                connection.last_seen_at = int(states[lane]["last_seen_at"])
            self._tracker.touch(connection)
            self._ordered_until = int(states[lane]["last_packet"])

    def _open(self, opening: Record) -> None:
        lane = self.lanes.acquire()
        self._lane_of_id[opening.connection] = lane
        self._openings[lane : lane + 1] = [opening]

    def _close(self, identity: bytes, lane: int) -> None:
        del self._lane_of_id[identity]
        self.lanes.release(lane)
        self._connections.pop(lane, None)
        pair = self._pair_of_lane.pop(lane, None)
        if pair is not None:
            self.lane_of_pair[pair] = NO_LANE
