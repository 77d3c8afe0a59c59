"""Hands a connection's state over: from `Connection` to a lane where it is calm, and back.

The one file that knows both forms. What a lane has no place for, a connection with it is not calm.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoders.frame.record import NO_RECORD, Direction
from decoders.wire.assembly import AssemblyState
from decoders.wire.columnar.lanes import NOT_YET, Lanes
from decoders.wire.columnar.waiting import in_ring
from decoders.wire.connection import Connection, ConnectionState
from decoders.wire.dialogue import Advertised, DialogueState
from decoders.wire.ledger import Ledger, Reason
from decoders.wire.pairing import Owed, OwedState
from decoders.wire.stream import Place

_DIRECTIONS = (Direction.TO_BROKER, Direction.TO_CLIENT)
_NOBODY = Owed(NO_RECORD, 0, 0, 0, 0)
_COUNTED_SINCE = (0,) * 6


def take_over(connection: Connection, lanes: Lanes, lane: int, lower_is_client: bool) -> list[bytes] | None:
    """Fill a lane from a connection; None if it is not calm enough for one.

    Gives, for each direction, the bytes of a frame that is not whole yet; the lane's streams say
    that nothing of it is there until the caller has put them where they belong.
    """
    if not connection.is_calm:
        return None
    state = connection.snapshot()
    dialogue, owed = state.dialogue, state.dialogue.owed
    if not _fits(owed):
        return None
    lanes.states[lane] = (
        True,
        lower_is_client,
        dialogue.is_opaque,
        owed.ids_repeat,
        owed.in_order,
        False,
        *_fill_ring(lanes, owed),
        owed.last_before_loss,
        *(dialogue.advertised or (NOT_YET, 0)),
        state.last_seen_at,
        state.last_position,
        lanes.states[lane]["last_packet"],
        state.accounted,
        *_COUNTED_SINCE,
    )
    begun = []
    for column, direction in enumerate(_DIRECTIONS):
        frame = dialogue.frames[direction]
        lanes.streams[lane, column] = _stream_row(state.places[direction], frame)
        begun.append(frame.captured if frame and frame.size is not None else b"")
    return begun


def _fits(owed: OwedState) -> bool:
    return not owed.waiting or owed.waiting[-1] is owed.latest_asked


def _fill_ring(lanes: Lanes, owed: OwedState) -> tuple[int, ...]:
    """Put what waits into a ring, and give what the lane is to know of it."""
    # The place before the first one that waits stands for the latest when nothing does.
    asked = [owed.latest_asked or _NOBODY, *owed.waiting]
    begin, size = lanes.acquire_ring(len(owed.waiting))
    lanes.rings.places[in_ring(begin, size, -1, len(asked))] = asked
    return begin, size, 0, len(owed.waiting), max(request.correlation_id for request in asked)


def _stream_row(place: Place, frame: AssemblyState | None) -> tuple[int, ...]:
    if frame is None:
        return (*place, 0, 0, NOT_YET, 0, 0, 0, 0, 0, 0, 0)
    first = (frame.captured_at, frame.position, frame.acknowledgment)
    if frame.size is None:
        return (*place, int.from_bytes(frame.captured), len(frame.captured), NOT_YET, 0, 0, 0, 0, *first)
    return (*place, 0, 0, frame.size, 0, frame.passed, 0, 0, *first)


def hand_back(lanes: Lanes, lane: int, connection: Connection, data: NDArray[np.uint8]) -> None:
    """Fill the connection that a calm lane stands for; `data` is where the lane's frames come together."""
    state = dict(zip(lanes.states.dtype.names or (), lanes.states[lane].item(), strict=True))
    owed = _owed(state, lanes)
    lanes.states[lane]["calm"] = False
    lanes.release_ring(lane)
    streams = dict(zip(_DIRECTIONS, lanes.streams[lane], strict=True))
    has_advertised = state["advertised_end"] != NOT_YET
    dialogue = DialogueState(
        owed,
        Advertised(state["advertised_end"], state["advertised_at"]) if has_advertised else None,
        state["opaque"],
        {direction: _frame(row, data) for direction, row in streams.items()},
    )
    places = {each: Place(int(row["next"]), int(row["next_sequence"])) for each, row in streams.items()}
    seen = (state["last_seen_at"], state["last_position"], state["held"])
    connection.restore(ConnectionState(*seen, places, dialogue), told=state["told"])
    _book(connection.ledger, state)


def _book(ledger: Ledger, counted: dict[str, Any]) -> None:
    """Book what a lane counted; in the ledger of all connections it is booked already."""
    skipped = {
        Reason.AFTER_HOLE: counted["after_hole"],
        Reason.DUPLICATE: counted["duplicate"],
        Reason.OPAQUE: counted["left_alone"],
    }
    ledger.captured += counted["captured"]
    ledger.framed += counted["framed"]
    ledger.lost += counted["lost"]
    ledger.pending += counted["captured"] - counted["framed"] - sum(skipped.values())
    ledger.skipped.update({reason: size for reason, size in skipped.items() if size})


def _owed(state: dict[str, Any], lanes: Lanes) -> OwedState:
    places = in_ring(state["ring"], state["ring_size"], state["first_waiting"] - 1, state["waiting"] + 1)
    asked = [Owed(*request) for request in lanes.rings.places[places].tolist()]
    latest = asked[-1] if asked[-1].sequence != NO_RECORD else None
    known = (state["in_order"], state["last_before_loss"], state["ids_repeat"])
    return OwedState(tuple(asked[1:]), latest, *known)


def _frame(row: np.void, data: NDArray[np.uint8]) -> AssemblyState | None:
    size, prefix_length = int(row["size"]), int(row["prefix_length"])
    first = (int(row["captured_at"]), int(row["position"]), int(row["acknowledgment"]))
    if size != NOT_YET:
        start, filled = int(row["start"]), int(row["filled"])
        return AssemblyState(size, data[start : start + filled].tobytes(), int(row["passed"]), *first)
    if prefix_length:
        return AssemblyState(None, int(row["prefix"]).to_bytes(prefix_length), 0, *first)
    return None
