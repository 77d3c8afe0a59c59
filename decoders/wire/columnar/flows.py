"""Flows: the state of connections on the fast path, in arrays that compiled code updates.

Every open connection has a flow. While the flow is *offloaded* the connection's state is here, and not in the
`Connection` that it was copied from. Only ordinary connections are offloaded: neither stream holds segments
out of order, both framers are synchronised, and no raw SASL tokens are expected. A connection of which both
directions are opaque, excluded, or encrypted without a key, is offloaded, too: its bytes are skipped. So is
one whose SYN was captured and not its SYN-ACK, whose client has sent nothing, or of which one side has sent
its FIN, behind all of its bytes. One that is decrypted is offloaded once both directions have been read.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from decoders.wire.columnar.in_flight import MIN_SLOTS, InFlightRings, ring_size, slots_of_ring

UNSET = -1
"""The size of a frame whose prefix is incomplete; the end of an ApiVersions response that does not exist."""
TO_BROKER, TO_CLIENT = 0, 1
"""The two columns of `Flows.streams`."""
NOBODY = -1
"""The closer of a flow of which no side has sent a FIN."""
NO_SYN = -1
_MIN_FLOWS = 64
READY = np.dtype([("flow", np.int64), ("ring", np.int64)])
"""A flow for a connection that is opened by the fast path, and a ring of MIN_SLOTS for it."""

BYTE_COUNTS = [
    (name, np.int64)
    for name in (
        "captured",
        "framed",
        "lost",
        "after_hole",
        "duplicate",
        "opaque",
        "excluded",
        "encrypted",
        "tls",
    )
]
"""Fields that count bytes, for each flow and for each port. They have the names of the ledger's counts."""
FLOW = np.dtype(
    [
        ("offloaded", np.bool_),
        ("lower_is_client", np.bool_),
        ("awaits_syn_ack", np.bool_),
        ("is_opening", np.bool_),  # the client has not sent anything
        ("is_opaque", np.bool_),
        ("is_excluded", np.bool_),
        ("is_encrypted", np.bool_),
        ("is_tls", np.bool_),  # its records are decrypted
        ("hides_type", np.bool_),
        ("explicit_nonce", np.uint8),
        ("ids_repeat", np.bool_),
        ("in_order", np.bool_),
        ("has_new_frames", np.bool_),  # frames were completed since the flow was offloaded
        ("awaited_alone", np.bool_),  # the latest ApiVersions response
        ("turn", np.uint8),
        ("closer", np.int8),
        ("closer_had", np.int64),
        ("initial_sequence", np.int64),
        ("ring", np.int64),
        ("ring_size", np.int64),
        ("first_in_flight", np.int64),
        ("in_flight", np.int64),
        ("highest_id", np.int64),
        ("last_before_loss", np.int64),
        ("api_versions_end", np.int64),
        ("api_versions_at", np.int64),
        ("last_seen_at", np.int64),
        ("last_position", np.int64),
        ("last_packet", np.int64),
        ("held", np.int64),
        ("port", np.int64),
        *BYTE_COUNTS,
    ]
)
"""One connection. Times are nanoseconds since the epoch, sizes are bytes.

`last_packet` is the number of the latest packet, `held` is `Connection.held`, `turn` is a `Turn`, `port` is
the row in which bytes of the server's port are counted. `closer` is the direction that was closed by a FIN,
NOBODY if none was, and `closer_had` the offset up to which its sender had received the other one.
`initial_sequence` is the sequence number of the client's SYN, NO_SYN if that was not captured. The byte
counts begin at 0 when the flow is offloaded.

The flow has `in_flight` requests in flight, in slots of its ring from number `first_in_flight` on. The slot
before the first free one holds the latest request, even if it was responded to; its sequence is NO_RECORD if
there was none. Therefore one slot always stays free. No request in flight has a correlation ID above
`highest_id`, nor has the latest request.
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
        ("number", np.int64),
        ("held", np.int64),
        ("pieces", np.int64),
    ]
)
"""One direction: the offset and sequence number of its next byte, and the frame under assembly.

`passed` of the frame's `size` bytes have passed. The `filled` bytes before the first one that was not
captured are at `start` of the batch's data, where `capacity` bytes are reserved. The next three fields are
those of the segment with the first byte of the length prefix. `number` is that of the next TLS record, of
which `held` bytes were captured, in so many `pieces`.
"""


class Flows:
    """All flows, by number: `states` has dtype FLOW and shape (n,), `streams` dtype STREAM and shape (n, 2).

    The number of a released flow is reused only in the next batch. The first `ready_count` rows of `ready`
    have dtype READY.
    """

    def __init__(self) -> None:
        self.states = np.zeros(_MIN_FLOWS, FLOW)
        self.streams = np.zeros((_MIN_FLOWS, 2), STREAM)
        self.rings = InFlightRings()
        self.ready = np.zeros(_MIN_FLOWS, READY)
        self.ready_count = 0
        self._used = 0
        self._free: list[int] = []
        self._released: list[int] = []

    def begin_batch(self) -> None:
        """Make the numbers of released flows available, and shrink rings that are mostly empty."""
        self._free += self._released
        self._released.clear()
        sizes = self.states["ring_size"]
        too_large = (sizes > MIN_SLOTS) & (sizes > 8 * self.states["in_flight"])
        for flow in np.flatnonzero(too_large).tolist():
            self._resize_ring(flow, int(sizes[flow]) // 2)

    def acquire(self) -> int:
        """Return the number of a new flow, which is not offloaded."""
        if self._free:
            return self._free.pop()
        return self._append(1)

    def _acquire_all(self, count: int) -> NDArray[np.int64]:
        """Return the numbers of new flows."""
        kept = max(0, len(self._free) - count)
        taken, self._free[kept:] = self._free[kept:], []
        missing = count - len(taken)
        begin = self._append(missing)
        return np.concatenate((np.array(taken, np.int64), np.arange(begin, begin + missing)))

    def _append(self, count: int) -> int:
        """Take flows that were never used, and return the number of the first."""
        begin, self._used = self._used, self._used + count
        while self._used > len(self.states):
            self.states, self.streams = _doubled(self.states), _doubled(self.streams)
        return begin

    def make_ready(self, count: int) -> None:
        """Make at least `count` flows ready."""
        missing = count - self.ready_count
        if missing <= 0:
            return
        made = np.empty(missing, READY)
        made["flow"] = self._acquire_all(missing)
        made["ring"] = self.rings.acquire_all(MIN_SLOTS, missing)
        self.ready = np.concatenate((self.ready[: self.ready_count], made))
        self.ready_count = count

    def release_all(self, flows: NDArray[np.int64]) -> None:
        """Clear flows whose connections are closed."""
        self.rings.release_all(self.states["ring"][flows], self.states["ring_size"][flows])
        self.states[flows] = np.zeros((), FLOW)
        self.streams[flows] = np.zeros((), STREAM)
        self._released += flows.tolist()

    def release(self, flow: int) -> None:
        """Clear a flow whose connection is closed."""
        self.release_ring(flow)
        self.states[flow] = np.zeros((), FLOW)
        self.streams[flow] = np.zeros((), STREAM)
        self._released.append(flow)

    def acquire_ring(self, in_flight: int) -> tuple[int, int]:
        """Return a ring with slots for `in_flight` requests, and its size."""
        size = ring_size(in_flight)
        return self.rings.acquire(size), size

    def release_ring(self, flow: int) -> None:
        """Release the ring of a flow that is not offloaded any more."""
        state = self.states[flow]
        self.rings.release(int(state["ring"]), int(state["ring_size"]))
        state["ring"] = state["ring_size"] = 0

    def grow_ring(self, flow: int) -> None:
        """Double the ring of a flow."""
        self._resize_ring(flow, 2 * int(self.states[flow]["ring_size"]))

    def _resize_ring(self, flow: int, size: int) -> None:
        """Move the requests of a flow to a ring of another size."""
        state, begin = self.states[flow], self.rings.acquire(size)
        first, count = int(state["first_in_flight"]) - 1, int(state["in_flight"]) + 1
        kept = slots_of_ring(int(state["ring"]), int(state["ring_size"]), first, count)
        self.rings.slots[slots_of_ring(begin, size, first, count)] = self.rings.slots[kept]
        self.release_ring(flow)
        state["ring"], state["ring_size"] = begin, size


def _doubled(array: NDArray[np.void]) -> NDArray[np.void]:
    return np.concatenate((array, np.zeros_like(array)))
