"""Which answer belongs to which request.

A broker answers the requests of a connection in their order (Kafka protocol guide, "Network"), so
the answers owed form a queue, and the correlation ID only confirms it. Where something may have
passed unseen a *hole* stands in the queue, for any number of requests. While a hole stands at its
head the order proves nothing, and an answer is matched by its correlation ID alone; a match clears
everything before it, holes included.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from decoders.frame.record import Pairing

MAX_OWED = 10_000
"""Of a connection with more unanswered requests the older ones are given up, as if unseen."""


class Owed(NamedTuple):
    """A request that is owed an answer; `sequence` is that of its record."""

    sequence: int
    correlation_id: int
    api_key: int
    api_version: int


_HOLE = None


class AnswersOwed:
    """The requests of one connection that still wait for an answer, oldest first."""

    def __init__(self) -> None:
        self._queue: deque[Owed | None] = deque()

    def ask(self, request: Owed, *, certain: bool) -> None:
        """Add a request; `certain` is False where its bytes did not tell whether it is owed an answer."""
        if len(self._queue) >= MAX_OWED:
            self._queue.clear()
            self.requests_lost()
        if not certain:
            self.requests_lost()
        self._queue.append(request)

    def requests_lost(self) -> None:
        """Take note that requests may have passed unseen after those in the queue."""
        if not self._queue or self._queue[-1] is not _HOLE:
            self._queue.append(_HOLE)

    def answers_lost(self) -> None:
        """Take note that answers may have passed unseen: to how many in the queue is not known."""
        if not self._queue or self._queue[0] is not _HOLE:
            self._queue.appendleft(_HOLE)

    def find(self, correlation_id: int) -> Owed | None:
        """Give the oldest waiting request with a correlation ID."""
        return next((owed for owed in self._queue if owed and owed.correlation_id == correlation_id), None)

    @property
    def none_waits(self) -> bool:
        """Whether no request is known to wait."""
        return not any(self._queue)

    def answer(self, correlation_id: int) -> tuple[Pairing, Owed | None]:
        """Take an answer in, and give its request where there is one."""
        if not self._queue:
            return Pairing.UNOWED, None
        head = self._queue[0]
        if head is _HOLE:
            return self._resynchronise(correlation_id)
        if head.correlation_id == correlation_id:
            self._queue.popleft()
            return Pairing.MATCHED, head
        return Pairing.FOREIGN, self._out_of_order(correlation_id, head)

    def _resynchronise(self, correlation_id: int) -> tuple[Pairing, Owed | None]:
        owed = self.find(correlation_id)
        if owed is None:
            return Pairing.UNKNOWN, None
        while self._queue.popleft() is not owed:
            pass
        return Pairing.MATCHED, owed

    def _out_of_order(self, correlation_id: int, head: Owed) -> Owed:
        """Pair an answer that is not the head's with the request it names, or else with the head."""
        owed = self.find(correlation_id)
        if owed is not None:
            self._queue.remove(owed)
            return owed
        # Whether it stood for the head's answer or came on top of it cannot be known.
        self._queue.popleft()
        self.answers_lost()
        return head
