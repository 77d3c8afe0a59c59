"""Copies a connection's state from `Connection` to its flow, if it is ordinary, and back.

No other file knows both forms. A connection stays scalar as long as a flow has no field for its state. The
bytes that the fast path counts go to the ledgers: those of a port after each batch, those of a flow when it
is restored.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoders.frame.record import NO_RECORD, Direction
from decoders.wire.columnar.fast_path_state import PORT_BYTES
from decoders.wire.columnar.flows import (
    BYTE_COUNTS,
    FLOW,
    NO_SYN,
    NOBODY,
    STREAM,
    UNSET,
    Flows,
    ring_size,
    slots_of_ring,
)
from decoders.wire.connection import Connection, ConnectionSnapshot
from decoders.wire.decryption import RecordsSnapshot
from decoders.wire.eviction import Standing
from decoders.wire.framing import AssemblySnapshot
from decoders.wire.kafka_layer import KafkaLayerSnapshot
from decoders.wire.ledger import Ledger, SkipReason
from decoders.wire.pairing import (
    ApiVersionsResponse,
    RequestInFlight,
    RequestsInFlight,
    RequestsInFlightSnapshot,
    Turn,
)
from decoders.wire.stream import NOTHING_HELD, StreamSnapshot

_DIRECTIONS = (Direction.TO_BROKER, Direction.TO_CLIENT)
_NO_REQUEST = RequestInFlight(NO_RECORD, 0, 0, 0, 0)
_NO_STREAM = StreamSnapshot(0, 0)
_SKIPPED = {
    "after_hole": SkipReason.AFTER_HOLE,
    "duplicate": SkipReason.DUPLICATE,
    "opaque": SkipReason.OPAQUE,
    "excluded": SkipReason.EXCLUDED,
    "encrypted": SkipReason.ENCRYPTED,
    "tls": SkipReason.TLS,
}
"""The reason why bytes are skipped, by the field that counts them."""
_REQUESTS_A_PACKET = 32
_BYTES_A_PACKET = 128 * 1024
"""Requests in flight, and bytes under assembly, that take about as long to copy to a flow and back as the
scalar tracker takes for a packet."""
_NO_BYTES_COUNTED = (0,) * len(BYTE_COUNTS.split())


def offload(
    connection: Connection, flows: Flows, flow: int, lower_is_client: bool, port: int
) -> list[bytes] | None:
    """Copy a connection's state to a flow. `port` is the row in which bytes of the server's port are counted.

    Returns None if the connection cannot be offloaded, else the bytes of the frame under assembly in each
    direction. The caller must copy them to the batch's data; until then the flow's streams say that there are
    none.
    """
    if not connection.can_be_offloaded:
        return None
    snapshot = connection.snapshot()
    kafka, in_flight, records = snapshot.kafka, snapshot.kafka.in_flight, snapshot.records
    api_versions = kafka.api_versions or ApiVersionsResponse(UNSET, 0, awaited_alone=False)
    flows.states[flow] = (
        True,
        lower_is_client,
        Direction.TO_CLIENT not in snapshot.streams,
        kafka.is_opening,
        kafka.is_opaque,
        kafka.is_excluded,
        kafka.is_encrypted,
        records is not None,
        records is not None and records.hides_type,
        0 if records is None else records.explicit_nonce,
        in_flight.ids_repeat,
        in_flight.in_order,
        False,
        api_versions.awaited_alone,
        in_flight.turn,
        *_closer(snapshot),
        NO_SYN if connection.client_syn is None else connection.client_syn.sequence,
        *_fill_ring(flows, in_flight),
        in_flight.last_before_loss,
        api_versions.end,
        api_versions.completed_at,
        snapshot.last_seen_at,
        snapshot.last_position,
        flows.states[flow]["last_packet"],
        snapshot.counted_held,
        port,
        snapshot.standing,
        0,
        *_NO_BYTES_COUNTED,
    )
    assembled = []
    for column, direction in enumerate(_DIRECTIONS):
        frame = kafka.frames.get(direction)
        place = (0, 0, 0)
        if records is not None:
            place = records.numbers[direction], records.held[direction], records.pieces[direction]
        row = _stream_row(snapshot.streams.get(direction, _NO_STREAM), frame)
        flows.streams[flow, column] = (*row, *place)
        assembled.append(frame.captured if frame and frame.size is not None else b"")
    return assembled


def opened() -> tuple[NDArray[np.void], NDArray[np.void]]:
    """Return the state of a connection of which only the SYN was captured, and that of its streams.

    Both have shape (1,). The numbers of the SYN and the ring are 0.
    """
    state, stream = np.zeros(1, FLOW), np.zeros(1, STREAM)
    in_flight = RequestsInFlight().snapshot()
    state["offloaded"] = state["awaits_syn_ack"] = state["is_opening"] = True
    state["ids_repeat"], state["in_order"] = in_flight.ids_repeat, in_flight.in_order
    state["standing"] = Standing.UNANSWERED
    state["turn"], state["last_before_loss"] = in_flight.turn, in_flight.last_before_loss
    state["closer"], state["api_versions_end"], state["ring_size"] = NOBODY, UNSET, ring_size(0)
    stream["size"], stream["first_held"], stream["doubted_at"] = UNSET, NOTHING_HELD, NOTHING_HELD
    return state, stream


def _closer(snapshot: ConnectionSnapshot) -> tuple[int, int]:
    """Return the flow's fields `closer` and `closer_had`."""
    for direction, had in snapshot.closers.items():
        return _DIRECTIONS.index(direction), had
    return NOBODY, 0


def _fill_ring(flows: Flows, in_flight: RequestsInFlightSnapshot) -> tuple[int, ...]:
    """Copy the requests in flight to a ring. Returns the flow's fields from `ring` to `highest_id`."""
    # The slot before the first request in flight holds the latest request if none is in flight.
    requests = [in_flight.latest or _NO_REQUEST, *in_flight.requests]
    size = ring_size(len(in_flight.requests))
    begin = flows.rings.acquire(size)
    flows.rings.slots[slots_of_ring(begin, size, -1, len(requests))] = requests
    return begin, size, 0, len(in_flight.requests), in_flight.highest_id


def _stream_row(stream: StreamSnapshot, frame: AssemblySnapshot | None) -> tuple[int, ...]:
    place = stream.offset, stream.sequence, stream.first_held, stream.doubted_at
    if frame is None:
        return (*place, 0, 0, UNSET, 0, 0, 0, 0, 0, 0, 0)
    first = (frame.captured_at, frame.position, frame.acknowledgment)
    if frame.size is None:
        return (*place, int.from_bytes(frame.captured), len(frame.captured), UNSET, 0, 0, 0, 0, *first)
    return (*place, 0, 0, frame.size, 0, frame.passed, 0, 0, *first)


def restore(flows: Flows, flow: int, connection: Connection, data: NDArray[np.uint8]) -> None:
    """Copy an offloaded flow's state back to its connection; `data` holds the frames under assembly.

    The held bytes of TLS records must be copied first.
    """
    state = dict(zip(flows.states.dtype.names or (), flows.states[flow].item(), strict=True))
    in_flight = _requests_in_flight(state, flows)
    flows.states[flow]["offloaded"] = False
    flows.states[flow]["stays"] = _stays(state["in_flight"], int(flows.streams[flow]["filled"].sum()))
    flows.release_ring(flow)
    begun = _DIRECTIONS[:1] if state["awaits_syn_ack"] else _DIRECTIONS
    rows = dict(zip(begun, flows.streams[flow], strict=False))
    api_versions = ApiVersionsResponse(
        state["api_versions_end"], state["api_versions_at"], state["awaited_alone"]
    )
    kafka = KafkaLayerSnapshot(
        in_flight,
        api_versions if api_versions.end != UNSET else None,
        state["is_opening"],
        state["is_opaque"],
        state["is_excluded"],
        state["is_encrypted"],
        {direction: _frame(row, data) for direction, row in rows.items()},
    )
    records = None if not state["is_tls"] else _records(state, rows)
    closers = {} if state["closer"] == NOBODY else {_DIRECTIONS[state["closer"]]: state["closer_had"]}
    streams = {
        each: StreamSnapshot(int(row["next"]), int(row["next_sequence"]), each in closers)
        for each, row in rows.items()
    }
    standing = Standing(state["standing"])
    seen = (state["last_seen_at"], state["last_position"], standing, state["held"])
    connection.restore(
        ConnectionSnapshot(*seen, streams, closers, kafka, records), has_new_frames=state["has_new_frames"]
    )
    _count(connection.ledger, state)


def _stays(in_flight: int, assembled: int) -> int:
    """Return how many packets the scalar tracker must process before copying is worth its time again."""
    return in_flight // _REQUESTS_A_PACKET + assembled // _BYTES_A_PACKET


def _records(state: dict[str, Any], rows: dict[Direction, np.void]) -> RecordsSnapshot:
    numbers = {direction: int(row["number"]) for direction, row in rows.items()}
    held = {direction: int(row["held"]) for direction, row in rows.items()}
    pieces = {direction: int(row["pieces"]) for direction, row in rows.items()}
    return RecordsSnapshot(numbers, held, pieces, state["explicit_nonce"], state["hides_type"])


def settle(flows: Flows, flow: int, connection: Connection) -> None:
    """Add the bytes that a flow counted to the ledger of its connection, which has ended."""
    state = dict(zip(flows.states.dtype.names or (), flows.states[flow].item(), strict=True))
    _count(connection.ledger, state)


def _count(ledger: Ledger, counted: dict[str, Any]) -> None:
    """Add the bytes that a flow counted to its connection's ledger. Port and tracker counted them before."""
    skipped = {reason: counted[field] for field, reason in _SKIPPED.items()}
    ledger.captured += counted["captured"]
    ledger.framed += counted["framed"]
    ledger.lost += counted["lost"]
    ledger.pending += counted["captured"] - counted["framed"] - sum(skipped.values())
    ledger.skipped.update({reason: size for reason, size in skipped.items() if size})


def _requests_in_flight(state: dict[str, Any], flows: Flows) -> RequestsInFlightSnapshot:
    slots = slots_of_ring(
        state["ring"], state["ring_size"], state["first_in_flight"] - 1, state["in_flight"] + 1
    )
    requests = [RequestInFlight(*request) for request in flows.rings.slots[slots].tolist()]
    latest = requests[-1] if requests[-1].sequence != NO_RECORD else None
    ids = state["ids_repeat"], state["highest_id"]
    known = state["in_order"], state["last_before_loss"], *ids, Turn(state["turn"])
    return RequestsInFlightSnapshot(tuple(requests[1:]), latest, *known)


def _frame(row: np.void, data: NDArray[np.uint8]) -> AssemblySnapshot | None:
    size, prefix_length = int(row["size"]), int(row["prefix_length"])
    first = (int(row["captured_at"]), int(row["position"]), int(row["acknowledgment"]))
    if size != UNSET:
        start, filled = int(row["start"]), int(row["filled"])
        return AssemblySnapshot(size, data[start : start + filled].tobytes(), int(row["passed"]), *first)
    if prefix_length:
        return AssemblySnapshot(None, int(row["prefix"]).to_bytes(prefix_length), 0, *first)
    return None


def add_counts(counts: NDArray[np.void], ledgers: Iterable[Ledger]) -> None:
    """Add each row, of dtype PORT_BYTES, to the ledger at the same place, and set all rows to zero."""
    for ledger, row in zip(ledgers, counts, strict=True):
        ledger.capture(int(row["captured"]))
        ledger.frame(int(row["framed"]))
        ledger.lose(int(row["lost"]))
        for field, reason in _SKIPPED.items():
            ledger.skip(reason, int(row[field]))
    counts[:] = np.zeros((), PORT_BYTES)
