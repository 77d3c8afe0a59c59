"""Closes connections without a packet of their own: evicts them, and closes idle ones.

The ends of offloaded connections become columns, without the scalar tracker: it takes some 50 microseconds
for each, and 150 if its state must be copied back from its flow. Only connections that are decrypted, that
hold bytes behind a hole, or that are not offloaded are left to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from decoders.frame.record import NO_TIME, Closing, Record
from decoders.retention import KEPT_FOR
from decoders.wire.columnar.events import ChangeColumns
from decoders.wire.columnar.flow_table import FlowTable
from decoders.wire.columnar.flows import UNSET
from decoders.wire.columnar.frames import FrameBatchBuilder
from decoders.wire.columnar.lazy_connections import LazyConnections
from decoders.wire.connection import Connection
from decoders.wire.eviction import HEAVY, Standing, closed_at_once, max_half_open, may_be_idle
from decoders.wire.framing import PREFIX
from decoders.wire.ledger import SkipReason
from decoders.wire.segment import Segment
from decoders.wire.stream import NOTHING_HELD
from decoders.wire.tracker import Tracker

_CHUNK = 1_024
Restore = Callable[[Connection], None]
"""Copies the state of a connection back from its flow."""


class ColumnarClosings:
    """The closings of a columnar tracker. `begin_batch` must be called before any other method.

    The scalar tracker's `held` must be up to date when one of `Closings` is called. `totals` has dtype
    TOTALS. The limits are those of the tracker.
    """

    def __init__(
        self,
        tracker: Tracker,
        flow_table: FlowTable,
        lazy: LazyConnections,
        totals: NDArray[np.void],
        *,
        max_connections: int,
        max_held: int,
    ) -> None:
        self._tracker = tracker
        self._table = flow_table
        self._lazy = lazy
        self._next_sequence = totals["next_sequence"]
        self._earliest, self._oldest, self._looked_at = (
            totals[name] for name in ("earliest", "oldest", "looked_at")
        )
        self._queue = SilentFlows(flow_table)
        self._max_connections = max_connections
        self._max_held = max_held

    def begin_batch(self, builder: FrameBatchBuilder, restore: Restore) -> None:
        """Take over where ends are added, and what restores a connection."""
        self._builder = builder
        self._restore = restore

    def make_room(self, segment: Segment) -> Iterator[Record]:
        """Evict the connections that have come least far, if there is no room for another one."""
        table, most = self._table, self._max_connections
        if table.open < most and table.half_open < max_half_open(most):
            return
        flows = table.least(closed_at_once(most))
        standings, counts = np.unique(table.flows.states["standing"][flows], return_counts=True)
        for standing, count in zip(standings.tolist(), counts.tolist(), strict=True):
            self._tracker.evicted[Standing(standing).shown] += count
        yield from self._close(flows, Closing.EVICTED, segment)

    def free(self, segment: Segment, latest: Connection | None) -> Iterator[Record]:
        """Evict the connections that hold most, until half of what all may hold is free."""
        if latest is not None:
            self._table.mark_seen(latest, self._table.packet)
        flows, held = self._table.heaviest()
        flows, held = (each[: closed_at_once(self._max_connections)] for each in (flows, held))
        kept = self._tracker.held - np.cumsum(held) + held
        heavy = flows[kept > self._max_held // 2]
        self._tracker.evicted[HEAVY] += len(heavy)
        yield from self._close(heavy, Closing.EVICTED, segment)

    def is_due(self, captured_at: int) -> bool:
        """Whether a connection may be idle when a packet is captured, and idle ones are to be looked for."""
        if not may_be_idle(captured_at, self._looked_at.item()):
            return False
        earliest: int = min(self._earliest.item(), self._oldest.item())
        return captured_at - earliest > KEPT_FOR

    def note_packet(self, captured_at: int) -> None:
        """Note a packet that compiled code does not process, and for which `is_due` was False."""
        if may_be_idle(captured_at, self._looked_at.item()):
            self._looked_at[0] = captured_at
        self._earliest[0] = min(self._earliest.item(), captured_at)

    def close_idle(self, segment: Segment) -> Iterator[Record]:
        """Close the connections that were silent for KEPT_FOR, the one that was silent longest first."""
        if not self.is_due(segment.captured_at):
            return
        self._looked_at[0] = segment.captured_at
        left = closed_at_once(self._max_connections)
        while True:
            flows = self._queue.take(segment.captured_at - KEPT_FOR, left)
            yield from self._close(flows, Closing.IDLE, segment)
            left -= len(flows)
            if not left or not self._queue.is_empty:
                break
            self._queue.fill()
            self._earliest[0] = NO_TIME
            if self._queue.is_empty:
                break
        self._oldest[0] = self._queue.oldest

    def _close(
        self, flows: Sequence[int] | NDArray[np.int64], closing: Closing, segment: Segment
    ) -> Iterator[Record]:
        """Close the connections of some flows, in this order."""
        numbers = np.asarray(flows, np.int64)
        states = self._table.flows.states
        holds = (self._table.flows.streams["first_held"][numbers] != NOTHING_HELD).any(axis=1)
        in_columns = states["offloaded"][numbers] & ~states["is_tls"][numbers] & ~holds
        if self._tracker.notifies_ends:
            in_columns[:] = False
        by_way = groupby(zip(in_columns.tolist(), numbers.tolist(), strict=True), itemgetter(0))
        for is_in_columns, group in by_way:
            chosen = [flow for _, flow in group]
            if is_in_columns:
                self._builder.changes.append(self._close_in_columns(chosen, closing, segment))
                continue
            for flow in chosen:
                connection = self._lazy.adopted(flow)
                self._restore(connection)
                yield from self._tracker.close(connection, closing, segment)

    def _close_in_columns(self, flows: list[int], closing: Closing, segment: Segment) -> ChangeColumns:
        """Close connections whose state is in their flows, and return their records."""
        table, tracker, count = self._table, self._tracker, len(flows)
        numbers, first = np.array(flows), self._next_sequence.item()
        self._next_sequence[0] += count
        states, streams = table.flows.states[numbers], table.flows.streams[numbers]
        tracker.held -= int(states["held"].sum())
        captured = np.where(streams["size"] == UNSET, streams["prefix_length"], PREFIX + streams["filled"])
        unfinished = captured.sum(axis=1)
        ledgers = (tracker.ledger, *tracker.port_ledgers.values())
        for port in np.unique(states["port"][unfinished > 0]).tolist():
            size = int(unfinished[states["port"] == port].sum())
            ledgers[port].skip(SkipReason.UNFINISHED, size)
        table.drop(flows)
        return ChangeColumns(
            numbers.astype(np.int32),
            np.arange(first, first + count),
            np.full(count, segment.captured_at),
            np.full(count, segment.position),
            np.full(count, closing, np.uint8),
            (1 + states["closer"]).astype(np.uint8),
        )


class SilentFlows:
    """Open connections in the order of their latest packets, as it was when `fill` was called.

    Connections that have been seen since are skipped at their turn, so each packet costs one step at most.
    """

    def __init__(self, table: FlowTable) -> None:
        self._table = table
        self._flows = self._packets = self._times = self._least = np.empty(0, np.int64)
        self._head = 0

    @property
    def is_empty(self) -> bool:
        """Whether none is left."""
        return self._head == len(self._flows)

    @property
    def oldest(self) -> int:
        """No connection that is left was last seen before this time."""
        return NO_TIME if self.is_empty else self._least.item(self._head)

    def fill(self) -> None:
        """Begin anew, with all open connections."""
        flows = self._table.open_flows()
        states = self._table.flows.states
        packets = states["last_packet"][flows]
        order = np.argsort(packets)
        self._flows, self._packets = flows[order], packets[order]
        self._times = states["last_seen_at"][self._flows]
        self._least = np.minimum.accumulate(self._times[::-1])[::-1]
        self._head = 0

    def take(self, before: int, most: int) -> NDArray[np.int64]:
        """Remove and return the next flows that were last seen before a capture time, `most` at most."""
        seen = self._table.flows.states["last_packet"]
        taken = [self._flows[:0]]
        while most and not self.is_empty:
            chunk = slice(self._head, self._head + _CHUNK)
            flows = self._flows[chunk]
            are_left = seen[flows] == self._packets[chunk]
            is_turn = ~are_left | (self._times[chunk] < before)
            end = len(flows) if is_turn.all() else int(np.argmin(is_turn))
            places = np.flatnonzero(are_left[:end])[:most]
            most -= len(places)
            taken.append(flows[places])
            self._head += end if most else int(places[-1]) + 1
            if end < len(flows):
                break
        return np.concatenate(taken)
