"""Server responses: to which API versions servers respond first in a batch, as claims to make of them.

A bucket claims once, not per connection, that a server responds to an API version. The claim says when the
server first did, so all windows of a batch are read before it is made: they are not in the order of time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from expectations.conversation.in_flight import ApiVersion
from expectations.conversation.window import ConnectionKey
from expectations.identity.claim import Claim
from expectations.identity.server_claim import answered_claim, kafka_claim

SERVER_LIMIT = 1_000
"""Servers of which a bucket knows to which API versions they respond; beyond that the oldest is forgotten."""
ANSWERED_LIMIT = 1_024
"""API versions of one server to which it is known to respond. Kafka has 600; a stranger's server has any."""


class ServerResponses:
    """The API versions to which servers responded in one batch. `known` holds those before, by server."""

    def __init__(self, known: dict[str, set[ApiVersion]]) -> None:
        self._known = known
        self._first: dict[str, dict[ApiVersion, int]] = {}
        self._keys: dict[str, ConnectionKey] = {}

    def known(self, key: ConnectionKey) -> set[ApiVersion]:
        """Return the API versions that a connection's server has responded to since an earlier batch."""
        return self._known.get(_name(key), set())

    def add(self, key: ConnectionKey, answered: Mapping[ApiVersion, int]) -> None:
        """Add the times at which API versions were first answered on a connection."""
        known, name = self.known(key), _name(key)
        for version, at in answered.items():
            if version in known:
                continue
            first = self._first.get(name, {})
            if version in first or len(known) + len(first) < ANSWERED_LIMIT:
                # The claim names the same connection, whichever was judged first.
                self._keys[name] = min(key, self._keys.get(name, key), key=lambda each: each.id)
                first[version] = min(at, first.get(version, at))
                self._first[name] = first

    def claims(self) -> Iterator[Claim]:
        """Claim what had its first response, and that there was any response; then it is known."""
        for name, first in self._first.items():
            key = self._keys[name]
            if name not in self._known:
                yield kafka_claim(key)
            self._known.setdefault(name, set()).update(first)
            for (api_key, api_version), at in sorted(first.items()):
                yield answered_claim(key.cluster, key.server, api_key, api_version, at)
        while len(self._known) > SERVER_LIMIT:
            del self._known[next(iter(self._known))]


def _name(key: ConnectionKey) -> str:
    return f"{key.cluster}\0{key.server}"
