"""Usage: which API versions each client used, how often and when last.

A client is a software with a client ID.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from decoders.frame.record import Kind
from decoders.protocol import API_VERSIONS
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.report.client import Software, software_order


class RequestCount(msgspec.Struct):
    """The requests of one API version. `last_seen` is the time of the latest, in nanoseconds since the epoch.

    `is_highest_offered` means that no broker offered the client a higher version where it sent one.
    """

    requests: int = 0
    last_seen: int = 0
    is_highest_offered: bool = True

    def add(self, other: RequestCount) -> None:
        """Add other requests of the version."""
        self.requests += other.requests
        self.last_seen = max(self.last_seen, other.last_seen)
        self.is_highest_offered = self.is_highest_offered and other.is_highest_offered


class UsedVersions(msgspec.Struct):
    """What was used on one connection, or on all connections of one client, by API key and version.

    `without_api_versions` counts connections, seen from their beginning, that sent requests but never
    ApiVersions.
    """

    connections: int = 0
    without_api_versions: int = 0
    uses: dict[tuple[int, int], RequestCount] = {}

    def record(self, observation: Observation) -> None:
        """Record an observation of a connection. Only requests of a known API and version are counted."""
        if observation.kind is Kind.REQUEST and observation.api_key >= 0 and observation.api_version >= 0:
            version = observation.api_key, observation.api_version
            self.uses.setdefault(version, RequestCount()).add(
                RequestCount(observation.count, observation.last_captured_at)
            )

    def conclude(self, conversation: Conversation) -> None:
        """Complete the usage of a connection that has ended with what its client was offered."""
        self.connections = 1
        has_asked = any(api_key == API_VERSIONS for api_key, _ in self.uses)
        self.without_api_versions = int(conversation.beginning_seen and bool(self.uses) and not has_asked)
        offered = conversation.advertised.ranges if conversation.advertised else {}
        for (api_key, version), use in self.uses.items():
            _, highest = offered.get(api_key, (0, -1))
            use.is_highest_offered = version == highest

    def add(self, other: UsedVersions) -> None:
        """Add the usage of a connection."""
        self.connections += other.connections
        self.without_api_versions += other.without_api_versions
        for version, use in other.uses.items():
            self.uses.setdefault(version, RequestCount()).add(use)


class ClientUsage(NamedTuple):
    """The usage of one client."""

    software: Software
    client_id: str | None
    usage: UsedVersions


class UsageByClient:
    """The usage of closed connections in sum, by client software and client ID."""

    def __init__(self) -> None:
        self._usages: dict[tuple[Software, str | None], UsedVersions] = {}

    def add(self, conversation: Conversation, usage: UsedVersions) -> None:
        """Add a connection that has ended."""
        usage.conclude(conversation)
        claimed = conversation.software
        software = (claimed.name, claimed.version) if claimed else (None, None)
        self._usages.setdefault((software, conversation.client_id), UsedVersions()).add(usage)

    def clients(self) -> list[ClientUsage]:
        """Return the usage of each client, ordered by software and client ID."""
        order = sorted(self._usages, key=lambda key: (software_order(key[0]), key[1] is None, key[1] or ""))
        return [ClientUsage(*client, self._usages[client]) for client in order]
