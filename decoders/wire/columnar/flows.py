"""Flows: the state of connections on the fast path, in arrays that compiled code updates.

Every open connection has a flow, which is a row of these arrays:

    state      meaning                                      next state
    ---------  -------------------------------------------  --------------------------------------------------
    FREE       its number may be used                       READY, in advance of connections that open; SCALAR
                                                            when the scalar tracker opens one
    READY      it waits for a SYN, with a ring for          OFFLOADED when compiled code opens a connection
               requests
    OFFLOADED  the connection's state is here               SCALAR at a packet that the fast path refuses;
                                                            RELEASED when compiled code closes the connection
    SCALAR     the connection's state is in a `Connection`  OFFLOADED when its traffic is ordinary again, and
                                                            after as many packets as a copy takes (`stays`);
                                                            RELEASED when the scalar tracker closes it
    RELEASED   the connection is closed                     FREE when the next batch begins: records of this
                                                            batch still name the number

Only ordinary connections are offloaded: their segments come in order. Bytes that a stream holds behind a hole
stay in its `Connection`, and the flow becomes SCALAR before its segments reach them. These fields of FLOW
say what is awaited next. If anything else comes, the flow becomes SCALAR, too:

    field           the connection                                    next
    --------------  ------------------------------------------------  ----------------------------------------
    awaits_syn_ack  is known by its SYN alone                         is_opening at the SYN-ACK
    is_opening      has a client that has not sent anything           none of these, at a plausible first
                                                                      request
    none of these   has synchronised framers in both directions, and  closer at a FIN
                    expects no raw SASL tokens
    is_opaque       is skipped: another protocol, excluded            closer at a FIN
                    (is_excluded) or without a key (is_encrypted)
    is_tls          is decrypted, and both directions have been read  none
    closer          has a side that sent its FIN behind all its       RELEASED at the other FIN, unless
                    bytes                                             is_opaque

A RST behind all bytes releases the flow, too, unless it awaits_syn_ack, is_opaque or is_tls.

The requests in flight of all flows are in ring buffers that share one array.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoders.compilation import inlined
from decoders.memory import grown, int64_fields

UNSET = -1
"""The size of a frame whose prefix is incomplete; the end of an ApiVersions response that does not exist."""
TO_BROKER, TO_CLIENT = 0, 1
"""The columns of `Flows.streams`."""
NOBODY = -1
"""The `closer` of a flow as long as no side has sent a FIN."""
NO_SYN = -1
_MIN_FLOWS = 64
READY = int64_fields("flow ring")
"""A flow for a connection that is opened by the fast path, and a ring of MIN_SLOTS for it."""

BYTE_COUNTS = "captured framed lost after_hole duplicate opaque excluded encrypted tls"
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
        ("standing", np.int64),
        ("stays", np.int64),
        *((name, np.int64) for name in BYTE_COUNTS.split()),
    ]
)
"""One connection. Times are nanoseconds since the epoch, sizes are bytes.

`last_packet` is the number of the latest packet, `held` is `Connection.held`, `turn` is a `Turn`, `port` is
the row in which bytes of the server's port are counted. `standing` is a `Standing`, 0 in flows without a
connection. `closer` is the direction that was closed by a FIN, NOBODY if none was, and `closer_had` the
offset up to which its sender had received the other one. `initial_sequence` is the sequence number of the
client's SYN, NO_SYN if that was not captured. The byte counts begin at 0 when the flow is offloaded. `stays`
is how many more packets of a SCALAR flow the scalar tracker processes before the flow may be offloaded again.

The flow has `in_flight` requests in flight, in slots of its ring from number `first_in_flight` on. The slot
before the first free one holds the latest request, even if it has its response; its sequence is NO_RECORD if
there was none. Therefore one slot always stays free. No request in flight has a correlation ID above
`highest_id`, nor has the latest request.
"""
STREAM = int64_fields(
    "next next_sequence first_held doubted_at prefix prefix_length size filled passed start capacity"
    " captured_at position acknowledgment number held pieces"
)
"""One direction: the fields of `StreamSnapshot`, but for `is_finished`, and the frame under assembly.

`passed` of the frame's `size` bytes have passed. The `filled` bytes before the first one that was not
captured are at `start` of the batch's data, where `capacity` bytes are reserved. The next three fields are
those of the segment with the first byte of the length prefix. `number` is that of the next TLS record, of
which `held` bytes were captured, in so many `pieces`.
"""
MIN_SLOTS = 16
_MIN_RINGS = 64
IN_FLIGHT = np.dtype(
    [
        ("sequence", np.int64),
        ("correlation_id", np.int32),
        ("api_key", np.int16),
        ("api_version", np.int16),
        ("captured_at", np.int64),
    ]
)
"""A request in flight: the fields of `RequestInFlight`."""


class Flows:
    """All flows, by number: `states` has dtype FLOW and shape (n,), `streams` dtype STREAM and shape (n, 2).

    The number of a released flow is reused only in the next batch. The first `ready_count` rows of `ready`,
    of dtype READY, are the flows that are ready.
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
        return int(self._acquire_all(1)[0])

    def _acquire_all(self, count: int) -> NDArray[np.int64]:
        """Return the numbers of new flows: free ones, then some that were never used."""
        kept = max(0, len(self._free) - count)
        taken, self._free[kept:] = self._free[kept:], []
        begin, self._used = self._used, self._used + count - len(taken)
        self.states, self.streams = grown(self.states, self._used), grown(self.streams, self._used)
        return np.concatenate((np.array(taken, np.int64), np.arange(begin, self._used)))

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

    def release_ring(self, flow: int) -> None:
        """Release the ring of a flow that leaves the state OFFLOADED."""
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


class InFlightRings:
    """Rings of different sizes, all powers of two, in one array `slots` of dtype IN_FLIGHT.

    A ring is identified by the index of its first slot.
    """

    def __init__(self) -> None:
        self.slots = np.zeros(_MIN_RINGS * MIN_SLOTS, IN_FLIGHT)
        self._top = 0
        self._free: defaultdict[int, list[int]] = defaultdict(list)

    def acquire(self, size: int) -> int:
        """Return a ring of `size` slots."""
        if self._free[size]:
            return self._free[size].pop()
        return self._append(size)

    def acquire_all(self, size: int, count: int) -> NDArray[np.int64]:
        """Return `count` rings of `size` slots."""
        free = self._free[size]
        kept = max(0, len(free) - count)
        taken, free[kept:] = free[kept:], []
        missing = count - len(taken)
        begin = self._append(size * missing)
        return np.concatenate((np.array(taken, np.int64), begin + size * np.arange(missing)))

    def _append(self, slots: int) -> int:
        """Take slots that were never used, and return the first."""
        begin, self._top = self._top, self._top + slots
        self.slots = grown(self.slots, self._top)
        return begin

    def release(self, begin: int, size: int) -> None:
        """Make a ring available again."""
        if size:
            self._free[size].append(begin)

    def release_all(self, begins: NDArray[np.int64], sizes: NDArray[np.int64]) -> None:
        """Make rings available again."""
        for size in np.unique(sizes[sizes > 0]).tolist():
            self._free[size] += begins[sizes == size].tolist()


def ring_size(in_flight: int) -> int:
    """Return the size of a ring for `in_flight` requests and the one before them, with room for more."""
    return max(MIN_SLOTS, 1 << (in_flight + 1).bit_length())


def slots_of_ring(begin: int, size: int, first: int, count: int) -> NDArray[np.int64]:
    """Return the indices in the array of `count` slots of a ring, from slot number `first` on."""
    return begin + (np.arange(first, first + count) & (size - 1))


@inlined
def slot_of(flow: Any, number: int) -> Any:
    """Return the index in the array of a slot of a flow's ring. Slot numbers wrap around the ring."""
    return flow.ring + (number & (flow.ring_size - 1))
