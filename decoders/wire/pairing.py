"""Which response belongs to which request.

A broker responds to the requests of a connection in their order (Kafka protocol guide, "Network"), so the
requests in flight are a queue, and the correlation ID only confirms the pairing. Once frames may have been
missed the order proves nothing. Then a response is matched by its correlation ID alone, and a match removes
all earlier requests from the queue.

Correlation IDs may repeat, so such a match may be with the wrong request: the right one may have been missed.
The order counts again, and a response can be FOREIGN or UNOWED again, only after a match with a request that
was captured after the last loss. Responses to a client that used an ID twice are not matched by ID at all.

A client that does not pipeline sends a request only when every earlier one has its response. `Turn` says
whether that is so.
"""

from __future__ import annotations

import enum
from collections import deque
from typing import NamedTuple

from decoders.frame.record import NO_RECORD, Pairing

MAX_IN_FLIGHT = 10_000
"""If a connection has this many requests in flight, the next one discards them, as if they were missed."""
MAX_AGE = 3600 * 1_000_000_000
"""Nanoseconds after which a request is discarded, as if it was missed, when a later one is captured."""
IN_FLIGHT_COST = 256
"""Bytes of memory that a request in flight takes, roughly."""


class Turn(enum.IntEnum):
    """Who sends next on a connection whose client does not pipeline."""

    CLIENT = 0
    """The client: every request has its response."""
    BROKER = 1
    """The broker: the client has sent one request since then."""
    UNKNOWN = 2
    """The client has sent more requests, or some that expect no response, or frames may have been missed."""


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
    turn: Turn


class RequestsInFlight:
    """The requests of one connection that expect a response, oldest first."""

    def __init__(self) -> None:
        self._queue: deque[RequestInFlight] = deque()
        # The IDs in the queue, so that adding a request takes constant time; not used once an ID repeats.
        self._ids: set[int] = set()
        self._in_order = True
        self._latest: RequestInFlight | None = None
        self._last_before_loss = NO_RECORD
        self._ids_repeat = False
        self._turn = Turn.CLIENT

    def note_request(self) -> None:
        """Note that a request or a raw SASL token was captured, whether or not it expects a response."""
        self._turn = Turn.BROKER if self._turn is Turn.CLIENT else Turn.UNKNOWN

    def note_token_response(self) -> None:
        """Note that the broker sent a raw SASL token, which responds to the one before it."""
        if self._turn is Turn.BROKER:
            self._turn = Turn.CLIENT

    def add(self, request: RequestInFlight, *, certain: bool) -> None:
        """Add a request; `certain` is false if its bytes do not show whether it expects a response."""
        self._discard_before(request.captured_at - MAX_AGE)
        if len(self._queue) >= MAX_IN_FLIGHT:
            self._queue.clear()
            self._ids.clear()
            self.note_loss()
        self._ids_repeat = self._ids_repeat or self._is_used(request.correlation_id)
        self._queue.append(request)
        self._ids.add(request.correlation_id)
        self._latest = request
        if not certain:
            self.note_loss()

    def note_loss(self) -> None:
        """Note that an unknown number of requests or responses may have been missed."""
        self._in_order = False
        self._turn = Turn.UNKNOWN
        self._last_before_loss = self._latest.sequence if self._latest else NO_RECORD

    def snapshot(self) -> RequestsInFlightSnapshot:
        """Return the state."""
        known = (self._latest, self._in_order, self._last_before_loss, self._ids_repeat, self._turn)
        return RequestsInFlightSnapshot(tuple(self._queue), *known)

    def restore(self, snapshot: RequestsInFlightSnapshot) -> None:
        """Continue from a snapshot."""
        self._queue = deque(snapshot.requests)
        self._ids = {request.correlation_id for request in snapshot.requests}
        _, self._latest, self._in_order, self._last_before_loss, self._ids_repeat, self._turn = snapshot

    def find(self, correlation_id: int) -> RequestInFlight | None:
        """Return the oldest request in flight with a correlation ID."""
        return next((request for request in self._queue if request.correlation_id == correlation_id), None)

    def includes(self, api_key: int) -> bool:
        """Whether a request of an API is known to be in flight."""
        return any(request.api_key == api_key for request in self._queue)

    @property
    def is_in_order(self) -> bool:
        """Whether the queue holds all requests in flight, so that the order of responses counts."""
        return self._in_order

    @property
    def turn(self) -> Turn:
        """Who sends next."""
        return self._turn

    @property
    def held(self) -> int:
        """Bytes of memory that the requests in flight take, roughly."""
        return IN_FLIGHT_COST * len(self._queue)

    @property
    def is_empty(self) -> bool:
        """Whether no request is known to be in flight."""
        return not self._queue

    def pair(self, correlation_id: int) -> tuple[Pairing, RequestInFlight | None]:
        """Pair a response with a request in flight, if there is one for it, and remove that request."""
        if not self._in_order:
            return self._pair_by_id(correlation_id)
        if not self._queue:
            return Pairing.UNOWED, None
        if self._queue[0].correlation_id == correlation_id:
            return Pairing.MATCHED, self._match_first()
        return Pairing.FOREIGN, self._pair_foreign(correlation_id)

    def _match_first(self) -> RequestInFlight:
        request = self._remove_first()
        if self._in_order and not self._queue:
            self._turn = Turn.CLIENT
        return request

    def _discard_before(self, captured_at: int) -> None:
        while self._queue and self._queue[0].captured_at < captured_at:
            self._remove_first()
            self.note_loss()

    def _is_used(self, correlation_id: int) -> bool:
        """Whether the latest request, or one in flight, has this ID."""
        latest = self._latest
        is_latest = latest is not None and latest.correlation_id == correlation_id
        return is_latest or correlation_id in self._ids

    def _remove_first(self) -> RequestInFlight:
        request = self._queue.popleft()
        self._ids.discard(request.correlation_id)
        return request

    def _pair_by_id(self, correlation_id: int) -> tuple[Pairing, RequestInFlight | None]:
        request = None if self._ids_repeat else self.find(correlation_id)
        if request is None:
            return Pairing.UNKNOWN, None
        while self._queue[0] is not request:
            self._remove_first()
        self._in_order = request.sequence > self._last_before_loss
        return Pairing.MATCHED, self._match_first()

    def _pair_foreign(self, correlation_id: int) -> RequestInFlight:
        """Pair a response out of order with the request of its ID, or else with the oldest request."""
        request = self.find(correlation_id)
        if request is not None:
            self._queue.remove(request)
            self._ids.discard(correlation_id)
            return request
        # Whether the response replaced the oldest request's response or was sent in addition is not known.
        oldest = self._remove_first()
        self.note_loss()
        return oldest
