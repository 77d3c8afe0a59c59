"""The requests in flight on a connection: how many of each API version wait for a response."""

from __future__ import annotations

from typing import Final

import msgspec

from decoders.frame.record import Kind
from decoders.protocol import API_VERSIONS, PRODUCE
from expectations.conversation.statement import Statement

ApiVersion = tuple[int, int]
"""An API key and a version."""
UNREADABLE_PRODUCE: ApiVersion = (PRODUCE, -1)
"""A Produce whose acks were not read, so that it is unknown whether it expects a response."""

VERSIONS_LIMIT: Final = 64
"""API versions of one connection that are told apart. A client could name four thousand million."""
OTHERS: ApiVersion = (API_VERSIONS, -1)
"""Stands for the versions beyond VERSIONS_LIMIT. There may be negotiations among them."""


class InFlight(msgspec.Struct, omit_defaults=True):
    """The requests of one connection since its latest loss without a response, by API version."""

    counts: dict[ApiVersion, int] = {}

    def advance(self, statement: Statement, count: int) -> None:
        """Count `count` frames with a statement."""
        change = in_flight_change(statement)
        if change is not None:
            version, sign = change
            self.add(version, sign * count)

    def add(self, version: ApiVersion, count: int) -> None:
        """Count `count` more requests of an API version, or fewer if it is negative."""
        if version not in self.counts and (OTHERS in self.counts or len(self.counts) >= VERSIONS_LIMIT):
            version = OTHERS
        left = self.counts.get(version, 0) + count
        if left:
            self.counts[version] = left
        else:
            self.counts.pop(version, None)

    @property
    def only_one(self) -> ApiVersion | None:
        """The API version of the only request in flight, None if there are more or none.

        None for one of OTHERS, too. UNREADABLE_PRODUCE is a request without a response, of which it is
        unknown whether it expects one.
        """
        is_one = list(self.counts.values()) == [1] and OTHERS not in self.counts
        return next(iter(self.counts)) if is_one else None

    def may_include(self, version: ApiVersion) -> bool:
        """Whether a request of an API version may be in flight."""
        return version in self.counts or OTHERS in self.counts

    def forget(self) -> dict[int, int]:
        """Forget all requests. Returns how many there were, by API key."""
        forgotten: dict[int, int] = {}
        for (api_key, _), count in self.counts.items():
            forgotten[api_key] = forgotten.get(api_key, 0) + count
        self.counts.clear()
        return forgotten


def in_flight_change(statement: Statement) -> tuple[ApiVersion, int] | None:
    """Return the API version of which each frame with a statement adds a request (1) or takes one (-1)."""
    if statement.kind is Kind.REQUEST and statement.expects_response:
        return request_version(statement), 1
    if statement.kind is Kind.RESPONSE and statement.is_matched:
        return (statement.api_key, statement.api_version), -1
    return None


def request_version(request: Statement) -> ApiVersion:
    """Return the API version that a request is counted under."""
    is_certain = request.known and request.failure is None
    if request.api_key == PRODUCE and not is_certain:
        return UNREADABLE_PRODUCE
    return request.api_key, request.api_version
