"""What was done on one connection, or in sum by one client software."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from decoders.frame.record import Kind
from decoders.protocol import API_VERSIONS
from expectations.conversation.bodies import Heartbeat
from expectations.conversation.conversation import Conversation
from expectations.conversation.identifier import identifier_bytes
from expectations.conversation.observation import Observation
from expectations.report.broker import Ranges, api_name
from expectations.report.client import Client, Software, VersionUse
from expectations.report.coverage import Checks, coverage_of
from expectations.report.header_bytes import HeaderBytes
from expectations.rules.base.negotiation_rule import FIRST_VERSION_WITH_SOFTWARE
from expectations.rules.base.rule import Rule

LISTED_IDS = 20
"""How many client IDs and member IDs are listed for a client software."""
NOT_CAPTURED = -1
"""The API key or version of an observed request of which too little was captured."""


class Activity(msgspec.Struct):
    """Counts and facts of one connection, or of all connections of one client software.

    `versions` counts requests by API key and version, `offered` holds the highest version that a broker
    advertised by API key. `client_ids` and `not_random` are the first IDs seen, in order.
    """

    connections: int = 0
    requests: int = 0
    client_ids: dict[str, None] = {}
    checks: dict[tuple[str, str], int] = {}
    without_api_versions: int = 0
    old_api_versions: int = 0
    not_random: dict[str, None] = {}
    versions: dict[int, dict[int, int]] = {}
    offered: dict[int, int] = {}
    headers: HeaderBytes = msgspec.field(default_factory=HeaderBytes)

    def record(self, observation: Observation) -> None:
        """Record an observation of a connection. Only requests are counted."""
        if observation.kind is not Kind.REQUEST:
            return
        self.headers.record(observation)
        self.requests += observation.count
        used = self.versions.setdefault(observation.api_key, {})
        used[observation.api_version] = used.get(observation.api_version, 0) + observation.count
        if isinstance(observation.body, Heartbeat) and _is_not_random(observation.body.member_id or ""):
            _list(self.not_random, observation.body.member_id or "")

    def count(self, checks: Checks) -> None:
        """Add verdicts by (rule id, verdict)."""
        for key, count in checks.items():
            self.checks[key] = self.checks.get(key, 0) + count

    def offer(self, ranges: Ranges) -> None:
        """Record the versions that a broker offers."""
        for key, (_, highest) in ranges.items():
            self.offered[key] = max(self.offered.get(key, highest), highest)

    def conclude(self, conversation: Conversation) -> None:
        """Complete the activity of a connection that has ended, with what its client did not send."""
        self.connections = 1
        self.headers.conclude(conversation)
        if conversation.client_id is not None:
            _list(self.client_ids, conversation.client_id)
        asked = max(self.versions.get(API_VERSIONS, {}), default=None)
        if asked is None:
            self.without_api_versions = int(conversation.beginning_seen and self.requests > 0)
        elif asked < FIRST_VERSION_WITH_SOFTWARE <= self.offered.get(API_VERSIONS, 0):
            self.old_api_versions = 1

    def add(self, other: Activity) -> None:
        """Add the activity of a connection."""
        self.connections += other.connections
        self.requests += other.requests
        self.without_api_versions += other.without_api_versions
        self.old_api_versions += other.old_api_versions
        self.count(other.checks)
        self.headers.add(other.headers)
        for names, more in ((self.client_ids, other.client_ids), (self.not_random, other.not_random)):
            for name in more:
                _list(names, name)
        for key, versions in other.versions.items():
            used = self.versions.setdefault(key, {})
            for version, count in versions.items():
                used[version] = used.get(version, 0) + count
        for key, highest in other.offered.items():
            self.offered[key] = max(self.offered.get(key, highest), highest)

    def client(self, software: Software, rules: Iterable[Rule], api_names: Mapping[int, str]) -> Client:
        """Return the sum as the report shows it."""
        return Client(
            *software,
            connections=self.connections,
            requests=self.requests,
            client_ids=list(self.client_ids),
            coverage=coverage_of(self.checks, rules),
            without_api_versions=self.without_api_versions,
            old_api_versions=self.old_api_versions,
            not_random_member_ids=list(self.not_random),
            versions=[self._use(key, api_names) for key in sorted(self.versions)],
            requests_on_header_v3=self.headers.on_header_v3,
            client_id_bytes_repeated=self.headers.repeated,
            client_id_bytes_saved=self.headers.saved,
            instance_id_bytes=self.headers.instance_ids,
        )

    def _use(self, key: int, api_names: Mapping[int, str]) -> VersionUse:
        used = self.versions[key]
        known = tuple(version for version in sorted(used) if version != NOT_CAPTURED)
        if key == NOT_CAPTURED:
            return VersionUse("unknown", None, known, sum(used.values()), None)
        return VersionUse(api_name(api_names, key), key, known, sum(used.values()), self.offered.get(key))


def _list(names: dict[str, None], name: str) -> None:
    if len(names) < LISTED_IDS:
        names[name] = None


def _is_not_random(member_id: str) -> bool:
    """Whether a member ID is a UUID without the bits of a random one (RFC 9562, version 4)."""
    found = identifier_bytes(member_id)
    return found is not None and (found[6] >> 4 != 4 or found[8] >> 6 != 2)
