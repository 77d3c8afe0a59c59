"""Which answer belongs to which request.

A broker answers the requests of a connection in their order (Kafka protocol guide, "Network"), so
the answers owed form a queue, and the correlation ID only confirms it. Once something may have
passed unseen the order proves nothing: an answer is then matched by its correlation ID alone, and a
match clears everything before it.

Correlation IDs may repeat, so such a match may be with the wrong request of that ID: the right one
may be among those that were lost. The order counts again, and with it the accusation that an answer
is foreign or unowed, only after a match with a request that was asked after the last loss. A client
that was seen to use an ID twice is not matched by ID at all.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from decoders.frame.record import NO_RECORD, Pairing

MAX_OWED = 10_000
"""Of a connection with more unanswered requests the older ones are given up, as if unseen."""
MAX_AGE = 3600 * 1_000_000_000
"""Nanoseconds after which a request is given up, as if unseen, when a later one is asked."""
OWED_COST = 256
"""What a request that waits takes, roughly, in bytes."""


class Owed(NamedTuple):
    """A request that is owed an answer; `sequence` is that of its record, `asked_at` its capture time."""

    sequence: int
    correlation_id: int
    api_key: int
    api_version: int
    asked_at: int


class OwedState(NamedTuple):
    """All that is known of the answers owed: the requests `waiting`, oldest first, and the latest asked."""

    waiting: tuple[Owed, ...]
    latest_asked: Owed | None
    in_order: bool
    last_before_loss: int
    ids_repeat: bool


class AnswersOwed:
    """The requests of one connection that still wait for an answer, oldest first."""

    def __init__(self) -> None:
        self._queue: deque[Owed] = deque()
        # The IDs in the queue, so that asking costs the same however many wait; unused once one repeats.
        self._waiting_ids: set[int] = set()
        self._in_order = True
        self._latest_asked: Owed | None = None
        self._last_before_loss = NO_RECORD
        self._ids_repeat = False

    def ask(self, request: Owed, *, certain: bool) -> None:
        """Add a request; `certain` is False where its bytes did not tell whether it is owed an answer."""
        self._give_up_before(request.asked_at - MAX_AGE)
        if len(self._queue) >= MAX_OWED:
            self._queue.clear()
            self._waiting_ids.clear()
            self.lose()
        self._ids_repeat = self._ids_repeat or self._is_used(request.correlation_id)
        self._queue.append(request)
        self._waiting_ids.add(request.correlation_id)
        self._latest_asked = request
        if not certain:
            self.lose()

    def lose(self) -> None:
        """Take note that requests or answers may have passed unseen: how many is not known."""
        self._in_order = False
        self._last_before_loss = self._latest_asked.sequence if self._latest_asked else NO_RECORD

    def snapshot(self) -> OwedState:
        """Give all that is known."""
        known = (self._latest_asked, self._in_order, self._last_before_loss, self._ids_repeat)
        return OwedState(tuple(self._queue), *known)

    def restore(self, state: OwedState) -> None:
        """Go on from a snapshot."""
        self._queue = deque(state.waiting)
        self._waiting_ids = {request.correlation_id for request in state.waiting}
        _, self._latest_asked, self._in_order, self._last_before_loss, self._ids_repeat = state

    def find(self, correlation_id: int) -> Owed | None:
        """Give the oldest waiting request with a correlation ID."""
        return next((owed for owed in self._queue if owed.correlation_id == correlation_id), None)

    @property
    def held(self) -> int:
        """How much memory the requests take that wait, in bytes, roughly."""
        return OWED_COST * len(self._queue)

    @property
    def none_waits(self) -> bool:
        """Whether no request is known to wait."""
        return not self._queue

    def answer(self, correlation_id: int) -> tuple[Pairing, Owed | None]:
        """Take an answer in, and give its request where there is one."""
        if not self._in_order:
            return self._resynchronise(correlation_id)
        if not self._queue:
            return Pairing.UNOWED, None
        if self._queue[0].correlation_id == correlation_id:
            return Pairing.MATCHED, self._take_first()
        return Pairing.FOREIGN, self._out_of_order(correlation_id)

    def _give_up_before(self, asked_at: int) -> None:
        while self._queue and self._queue[0].asked_at < asked_at:
            self._take_first()
            self.lose()

    def _is_used(self, correlation_id: int) -> bool:
        """Whether the latest request, or one that waits, has this ID."""
        latest = self._latest_asked
        is_latest = latest is not None and latest.correlation_id == correlation_id
        return is_latest or correlation_id in self._waiting_ids

    def _take_first(self) -> Owed:
        owed = self._queue.popleft()
        self._waiting_ids.discard(owed.correlation_id)
        return owed

    def _resynchronise(self, correlation_id: int) -> tuple[Pairing, Owed | None]:
        owed = None if self._ids_repeat else self.find(correlation_id)
        if owed is None:
            return Pairing.UNKNOWN, None
        while self._take_first() is not owed:
            pass
        self._in_order = owed.sequence > self._last_before_loss
        return Pairing.MATCHED, owed

    def _out_of_order(self, correlation_id: int) -> Owed:
        """Pair an answer that is not the head's with the request it names, or else with the head."""
        owed = self.find(correlation_id)
        if owed is not None:
            self._queue.remove(owed)
            self._waiting_ids.discard(correlation_id)
            return owed
        # Whether it stood for the head's answer or came on top of it cannot be known.
        head = self._take_first()
        self.lose()
        return head
