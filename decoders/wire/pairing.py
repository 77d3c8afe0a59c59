"""Requests in flight: which response belongs to which request, and what a client knew when it sent one.

A broker responds to the requests of a connection in their order (Kafka protocol guide, "Network"), so the
requests in flight are a queue, and the correlation ID only confirms the pairing. The order proves nothing
once frames may have been missed. Then a response is matched by its correlation ID alone, and a match removes
all earlier requests from the queue.

Correlation IDs may repeat, so such a match may be with the wrong request: the right one may have been missed.
The order counts again, and a response can be FOREIGN or UNOWED again, only after a match with a request that
was captured after the last loss. If a client may have used an ID twice, no response to it is matched by ID.

A client that does not pipeline sends a request only when every earlier one has its response. `Turn` follows
this.

Some rules need to know whether a client had the latest ApiVersions response when it sent a request.
Acknowledgments, capture times and the requests in flight show it, and the record of the request gets a flag:

    flag      the request was sent
    --------  ----------------------------------------------------------------------------------------------
    SETTLED   after the response arrived, and at least SETTLING_TIME after it was captured
    INFORMED  in turn, after everything that was captured of the broker arrived; and while the client waited
              for the response, no other request was in flight
    NONE      before the response arrived, or nothing proves the opposite
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from decoders.frame.record import NO_RECORD, Direction, Flag, Pairing
from decoders.protocol import API_VERSIONS
from decoders.wire.framing import Frame

MAX_IN_FLIGHT = 10_000
"""Requests in flight. One more discards all of them, as if they were missed."""
COMPARED = 1_024
"""With so many requests in flight, an ID that does not rise is taken for a repeated one. Compiled code
would compare it with all, so a client could make each request as expensive as it likes."""
MAX_AGE = 3600 * 1_000_000_000
"""Nanoseconds after which a request is discarded, as if it was missed, when a later one is captured."""
IN_FLIGHT_COST = 256
"""Bytes of memory that a request in flight takes, roughly."""
SETTLING_TIME = 1_000_000_000
"""Nanoseconds after the capture of a response before a request can count as sent after it."""


class Turn(enum.IntEnum):
    """The side that sends next if the client does not pipeline."""

    CLIENT = 0
    """Every request has its response."""
    BROKER = 1
    """The client has sent one request since then."""
    UNKNOWN = 2
    """The client has sent more requests, or one that expects no response, or frames may have been missed."""


class RequestInFlight(NamedTuple):
    """A request that expects a response. `sequence` and `captured_at` are those of its record."""

    sequence: int
    correlation_id: int
    api_key: int
    api_version: int
    captured_at: int


class RequestsInFlightSnapshot(NamedTuple):
    """The state of `RequestsInFlight`. `requests` has the oldest first; `latest` may not be among them."""

    requests: tuple[RequestInFlight, ...]
    latest: RequestInFlight | None
    in_order: bool
    last_before_loss: int
    ids_repeat: bool
    highest_id: int
    turn: Turn


class RequestsInFlight:
    """The requests of one connection that expect a response, oldest first."""

    def __init__(self) -> None:
        self._queue: deque[RequestInFlight] = deque()
        # The IDs in the queue, so that `add` takes constant time. Not used once an ID repeats.
        self._ids: set[int] = set()
        self.is_in_order = True
        """Whether the queue holds all requests in flight, so that the order of responses counts."""
        self._latest: RequestInFlight | None = None
        self._last_before_loss = NO_RECORD
        self._ids_repeat = False
        self._highest_id = 0
        self.turn = Turn.CLIENT
        """The side that sends next."""

    def note_request(self) -> None:
        """Note that a request or a raw SASL token was captured, whether or not it expects a response."""
        self.turn = Turn.BROKER if self.turn is Turn.CLIENT else Turn.UNKNOWN

    def note_token_response(self) -> None:
        """Note that the broker sent a raw SASL token, the response to the client's."""
        if self.turn is Turn.BROKER:
            self.turn = Turn.CLIENT

    def add(self, request: RequestInFlight, *, certain: bool) -> None:
        """Add a request; `certain` is false if its bytes do not show whether it expects a response."""
        self._discard_before(request.captured_at - MAX_AGE)
        if len(self._queue) >= MAX_IN_FLIGHT:
            self._queue.clear()
            self._ids.clear()
            self.note_loss()
        self._ids_repeat = self._ids_repeat or self._may_be_used(request.correlation_id)
        self._highest_id = max(self._highest_id, request.correlation_id)
        self._queue.append(request)
        self._ids.add(request.correlation_id)
        self._latest = request
        if not certain:
            self.note_loss()

    def note_loss(self) -> None:
        """Note that an unknown number of requests or responses may have been missed."""
        self.is_in_order = False
        self.turn = Turn.UNKNOWN
        self._last_before_loss = self._latest.sequence if self._latest else NO_RECORD

    @property
    def can_be_offloaded(self) -> bool:
        """Whether a ring can hold the queue: the latest request is in flight, or none is."""
        return not self._queue or self._queue[-1] is self._latest

    def snapshot(self) -> RequestsInFlightSnapshot:
        """Return the state."""
        return RequestsInFlightSnapshot(
            tuple(self._queue),
            self._latest,
            self.is_in_order,
            self._last_before_loss,
            self._ids_repeat,
            self._highest_id,
            self.turn,
        )

    def restore(self, snapshot: RequestsInFlightSnapshot) -> None:
        """Continue from a snapshot."""
        self._queue = deque(snapshot.requests)
        self._ids = {request.correlation_id for request in snapshot.requests}
        self._latest = snapshot.latest
        self.is_in_order = snapshot.in_order
        self._last_before_loss = snapshot.last_before_loss
        self._ids_repeat, self._highest_id = snapshot.ids_repeat, snapshot.highest_id
        self.turn = snapshot.turn

    def find(self, correlation_id: int) -> RequestInFlight | None:
        """Return the oldest request in flight with a correlation ID."""
        return next((request for request in self._queue if request.correlation_id == correlation_id), None)

    def includes(self, api_key: int) -> bool:
        """Whether a request of an API is known to be in flight."""
        return any(request.api_key == api_key for request in self._queue)

    @property
    def held(self) -> int:
        """Bytes of memory of the requests in flight, roughly."""
        return IN_FLIGHT_COST * len(self._queue)

    @property
    def is_empty(self) -> bool:
        """Whether no request is known to be in flight."""
        return not self._queue

    def pair(self, correlation_id: int) -> tuple[Pairing, RequestInFlight | None]:
        """Pair a response with a request in flight, if there is one for it, and remove that request."""
        if not self.is_in_order:
            return self._pair_by_id(correlation_id)
        if not self._queue:
            return Pairing.UNOWED, None
        if self._queue[0].correlation_id == correlation_id:
            return Pairing.MATCHED, self._match_first()
        return Pairing.FOREIGN, self._pair_foreign(correlation_id)

    def _match_first(self) -> RequestInFlight:
        request = self._remove_first()
        if self.is_in_order and not self._queue:
            self.turn = Turn.CLIENT
        return request

    def _discard_before(self, captured_at: int) -> None:
        while self._queue and self._queue[0].captured_at < captured_at:
            self._remove_first()
            self.note_loss()

    def _may_be_used(self, correlation_id: int) -> bool:
        """Whether the latest request, or one in flight, has this ID, or there are too many to tell."""
        if correlation_id > self._highest_id:
            return False
        if len(self._queue) >= COMPARED:
            return True
        latest = self._latest
        is_latest = latest is not None and latest.correlation_id == correlation_id
        return is_latest or correlation_id in self._ids

    def _remove_first(self) -> RequestInFlight:
        request = self._queue.popleft()
        self._ids.discard(request.correlation_id)
        return request

    def _pair_by_id(self, correlation_id: int) -> tuple[Pairing, RequestInFlight | None]:
        is_searched = not self._ids_repeat and correlation_id in self._ids
        request = self.find(correlation_id) if is_searched else None
        if request is None:
            return Pairing.UNKNOWN, None
        while self._queue[0] is not request:
            self._remove_first()
        self.is_in_order = request.sequence > self._last_before_loss
        return Pairing.MATCHED, self._match_first()

    def _pair_foreign(self, correlation_id: int) -> RequestInFlight:
        """Pair a response out of order with the request of its ID, or else with the oldest request."""
        request = self.find(correlation_id)
        if request is not None:
            self._queue.remove(request)
            self._ids.discard(correlation_id)
            return request
        # It may replace the response to the oldest request, or be an additional one: nothing shows which.
        oldest = self._remove_first()
        self.note_loss()
        return oldest


class ApiVersionsResponse(NamedTuple):
    """The latest ApiVersions response: the stream offset after it, and the capture time of its last byte.

    `awaited_alone`: while the client waited for it, no other request was in flight or sent.
    """

    end: int
    completed_at: int
    awaited_alone: bool


class Acknowledged(NamedTuple):
    """The broker's stream up to `offset`; `everything` means that no more of it was captured."""

    offset: int
    everything: bool


AcknowledgedBy = Callable[[int], Acknowledged]
"""Returns the part of the broker's stream that an acknowledgment number of the client covers."""


class LatestApiVersions:
    """The latest ApiVersions response of one connection, and the flags of requests.

    `response` is None if there was none, or if a later one may have been missed.
    """

    def __init__(self, in_flight: RequestsInFlight, acknowledged_by: AcknowledgedBy) -> None:
        self.response: ApiVersionsResponse | None = None
        self._in_flight = in_flight
        self._acknowledged_by = acknowledged_by

    def note_gap(self, direction: Direction) -> None:
        """Forget the response if frames that were missed may hide a later one.

        Its request is in flight, or may be lost as well: the holes of two directions may be found in any
        order. To be called before `in_flight.note_loss`.
        """
        in_flight, is_of_broker = self._in_flight, direction is Direction.TO_CLIENT
        if not in_flight.is_in_order or (is_of_broker and in_flight.includes(API_VERSIONS)):
            self.response = None

    def flags_of(self, request: Frame) -> Flag:
        """Return the flag of a request."""
        response = self.response
        if response is None:
            return Flag.NONE
        acknowledged = self._acknowledged_by(request.acknowledgment)
        if acknowledged.offset < response.end:
            # The client pipelines: it sent the request before the response arrived, in whichever order
            # captured.
            self.response = response._replace(awaited_alone=False)
            return Flag.NONE
        if request.captured_at >= response.completed_at + SETTLING_TIME:
            return Flag.SETTLED
        is_in_turn = acknowledged.everything and self._in_flight.turn is Turn.CLIENT
        return Flag.INFORMED if is_in_turn and response.awaited_alone else Flag.NONE
