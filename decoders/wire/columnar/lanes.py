"""Lanes: the state of connections whose traffic is calm, in arrays that compiled code keeps.

A lane stands for one open connection. It is *calm* while its state is here, and not in the
`Connection` that it was taken from: nothing waits out of order in either stream, both framers are in
step, no SASL tokens are on their way. Or both directions are opaque, and are left alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from decoders.wire.columnar.waiting import FEWEST_PLACES, Rings, in_ring, ring_size

NOT_YET = -1
"""The size of a frame whose length prefix is not whole, and where an answer ends that never came."""
TO_BROKER, TO_CLIENT = 0, 1
"""The two columns of `Lanes.streams`."""
_FEWEST_LANES = 64

LANE = np.dtype(
    [
        ("calm", np.bool_),
        ("lower_is_client", np.bool_),
        ("opaque", np.bool_),
        ("ids_repeat", np.bool_),
        ("in_order", np.bool_),
        ("told", np.bool_),  # something was told of the connection since it is calm
        ("ring", np.int64),
        ("ring_size", np.int64),
        ("first_waiting", np.int64),
        ("waiting", np.int64),
        ("highest_id", np.int64),
        ("last_before_loss", np.int64),
        ("advertised_end", np.int64),
        ("advertised_at", np.int64),
        ("last_seen_at", np.int64),
        ("last_position", np.int64),
        ("last_packet", np.int64),
        ("held", np.int64),
        ("captured", np.int64),
        ("framed", np.int64),
        ("lost", np.int64),
        ("after_hole", np.int64),
        ("duplicate", np.int64),
        ("left_alone", np.int64),
    ]
)
"""One connection. `last_packet` is the number of its latest packet, `held` what `Connection.held` means; the
last six count bytes since it is calm.

`waiting` requests wait for an answer, in places of its ring from the one numbered `first_waiting` on. The
place before the first free one holds the latest request that was asked, even if it waits no more; its
sequence is NO_RECORD if there was none. So one place is always left free. No request that waits has a
correlation ID above `highest_id`, nor has the latest.
"""
STREAM = np.dtype(
    [
        ("next", np.int64),
        ("next_sequence", np.int64),
        ("prefix", np.int64),
        ("prefix_length", np.int64),
        ("size", np.int64),
        ("filled", np.int64),
        ("passed", np.int64),
        ("start", np.int64),
        ("capacity", np.int64),
        ("captured_at", np.int64),
        ("position", np.int64),
        ("acknowledgment", np.int64),
    ]
)
"""One direction: its place in the stream, and the frame that comes together.

Of the frame's `size` bytes `passed` have passed; the `filled` ones before the first that was not captured
lie at `start` of the batch's data, where `capacity` bytes are reserved. The last three are of the segment
with the first byte of its length prefix.
"""
TOTALS = np.dtype(
    [
        ("packets", np.int64),  # the number of the batch's first, counted from 1
        ("next_sequence", np.int64),
        ("rows", np.int64),
        ("top", np.int64),  # where the free part of the data begins
        ("earliest", np.int64),
        ("held", np.int64),
        ("tcp", np.int64),
        ("captured", np.int64),
        ("framed", np.int64),
        ("lost", np.int64),
        ("after_hole", np.int64),
        ("duplicate", np.int64),
        ("left_alone", np.int64),
        ("other_port", np.int64),
    ]
)
"""What is counted over all lanes.

`held` is the memory that waits, in lanes and elsewhere. No open connection was seen last before `earliest`.
"""
LIMITS = np.dtype(
    [
        ("idle_after", np.int64),
        ("settling_time", np.int64),
        ("max_age", np.int64),
        ("max_frame", np.int64),
        ("max_held", np.int64),
        ("max_owed", np.int64),
        ("owed_cost", np.int64),
    ]
)
"""What the scalar code's constants of these names say."""
PACKET = np.dtype([("row", np.int64), ("lane", np.int64), ("direction", np.int64), ("begin", np.int64)])
"""The packet that is heard: its row, its lane and direction, and where its new bytes begin in the data."""


class Lanes:
    """All lanes, by number. A number that was released is given again only after `begin`."""

    def __init__(self) -> None:
        self.states = np.zeros(_FEWEST_LANES, LANE)
        self.streams = np.zeros((_FEWEST_LANES, 2), STREAM)
        self.rings = Rings()
        self._used = 0
        self._free: list[int] = []
        self._released: list[int] = []

    def begin(self) -> None:
        """Begin a batch: lanes that were released may be acquired again, and large rings become smaller."""
        self._free += self._released
        self._released.clear()
        sizes = self.states["ring_size"]
        too_large = (sizes > FEWEST_PLACES) & (sizes > 8 * self.states["waiting"])
        for lane in np.flatnonzero(too_large).tolist():
            self._move(lane, int(sizes[lane]) // 2)

    def acquire(self) -> int:
        """Give the number of a lane that is not calm."""
        if self._free:
            return self._free.pop()
        if self._used == len(self.states):
            self.states = _doubled(self.states)
            self.streams = _doubled(self.streams)
        self._used += 1
        return self._used - 1

    def release(self, lane: int) -> None:
        """Have done with a lane."""
        self.release_ring(lane)
        self.states[lane] = np.zeros((), LANE)
        self.streams[lane] = np.zeros((), STREAM)
        self._released.append(lane)

    def acquire_ring(self, waiting: int) -> tuple[int, int]:
        """Give a ring with places for so many requests, and its size."""
        size = ring_size(waiting)
        return self.rings.acquire(size), size

    def release_ring(self, lane: int) -> None:
        """Have done with the ring of a lane, which is not calm any more."""
        state = self.states[lane]
        self.rings.release(int(state["ring"]), int(state["ring_size"]))
        state["ring"] = state["ring_size"] = 0

    def widen_ring(self, lane: int) -> None:
        """Make room for more requests that wait."""
        self._move(lane, 2 * int(self.states[lane]["ring_size"]))

    def _move(self, lane: int, size: int) -> None:
        """Let a lane have a ring of another size."""
        state, begin = self.states[lane], self.rings.acquire(size)
        first, count = int(state["first_waiting"]) - 1, int(state["waiting"]) + 1
        kept = in_ring(int(state["ring"]), int(state["ring_size"]), first, count)
        self.rings.places[in_ring(begin, size, first, count)] = self.rings.places[kept]
        self.release_ring(lane)
        state["ring"], state["ring_size"] = begin, size


def _doubled(array: NDArray[np.void]) -> NDArray[np.void]:
    return np.concatenate((array, np.zeros_like(array)))
