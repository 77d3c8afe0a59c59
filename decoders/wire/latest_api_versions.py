"""Whether a request was sent after the client had the latest ApiVersions response.

Some rules need to know that. Acknowledgments, capture times and the requests in flight show it, so the
request's record gets a flag that says so: `Flag.SETTLED` or `Flag.INFORMED`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from decoders.frame.record import Direction, Flag
from decoders.protocol import API_VERSIONS
from decoders.wire.assembly import Frame
from decoders.wire.pairing import RequestsInFlight, Turn

SETTLING_TIME = 1_000_000_000
"""Nanoseconds after the capture of a response before a request can count as sent after it."""


class ApiVersionsResponse(NamedTuple):
    """The latest ApiVersions response: the stream offset after it, and the capture time of its last byte.

    `awaited_alone` means that no other request was in flight, nor sent, while the client waited for it.
    """

    end: int
    completed_at: int
    awaited_alone: bool


class Acknowledged(NamedTuple):
    """The broker's stream up to `offset`; `everything` means that this is all that was captured of it."""

    offset: int
    everything: bool


AcknowledgedBy = Callable[[int], Acknowledged]
"""Returns what an acknowledgment number of the client acknowledges."""


class LatestApiVersions:
    """The latest ApiVersions response of one connection.

    `response` is None if there was none, or if a later one may have been missed.
    """

    def __init__(self, in_flight: RequestsInFlight, acknowledged_by: AcknowledgedBy) -> None:
        self.response: ApiVersionsResponse | None = None
        self._in_flight = in_flight
        self._acknowledged_by = acknowledged_by

    def note(self, frame: Frame, *, awaited_alone: bool) -> None:
        """Note that a frame is an ApiVersions response."""
        self.response = ApiVersionsResponse(frame.end, frame.completed_at, awaited_alone)

    def note_gap(self, direction: Direction) -> None:
        """Note that frames of a direction may have been missed. `in_flight` must be told so afterwards."""
        if self._may_be_hidden(direction):
            self.forget()

    def forget(self) -> None:
        """Forget the response: a later one may have been missed."""
        self.response = None

    def flags_of(self, request: Frame) -> Flag:
        """Return what is known of whether the client had the response when it sent a request."""
        response = self.response
        if response is None:
            return Flag.NONE
        acknowledged = self._acknowledged_by(request.acknowledgment)
        if acknowledged.offset < response.end:
            # Sent before the response arrived, even if it was captured later: this client pipelines.
            self.response = response._replace(awaited_alone=False)
            return Flag.NONE
        if request.captured_at >= response.completed_at + SETTLING_TIME:
            return Flag.SETTLED
        is_in_turn = acknowledged.everything and self._in_flight.turn is Turn.CLIENT
        return Flag.INFORMED if is_in_turn and response.awaited_alone else Flag.NONE

    def _may_be_hidden(self, direction: Direction) -> bool:
        """Whether a later response may be lost. Its request is in flight, or was lost, too.

        The holes of two directions may be found in any order.
        """
        if not self._in_flight.is_in_order:
            return True
        return direction is Direction.TO_CLIENT and self._in_flight.includes(API_VERSIONS)
