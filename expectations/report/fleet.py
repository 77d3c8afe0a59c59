"""The fleet: what each client software did, gathered connection by connection while a source is judged.

Beside the verdicts it holds facts that are worth knowing and nobody's offence: connections without any
ApiVersions, ApiVersions below the version that tells the software, member IDs that are not random,
and the API versions in use beside what brokers offer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from decoders.frame.record import Kind
from decoders.protocol import API_VERSIONS
from expectations.conversation.conversation import Conversation
from expectations.conversation.identifier import identifier_bytes
from expectations.conversation.observation import Heartbeat, Observation
from expectations.report.broker import Broker, Ranges, api_name
from expectations.report.coverage import Coverage, coverage_of
from expectations.rules.base.rule import Rule

NAMED_IDS = 20
"""Client IDs and member IDs that are named for a client software; of more nothing is told."""
TELLING_VERSION = 3
"""The version of ApiVersions from which on a client tells its software (KIP-511)."""

Software = tuple[str | None, str | None]
"""A client software's name and version; None where no connection told them."""
Checks = Mapping[tuple[str, str], int]


class VersionUse(msgspec.Struct, frozen=True):
    """The versions of an API that a client software used, and the highest that a broker offered it."""

    api: str
    api_key: int
    versions: tuple[int, ...]
    requests: int
    highest_offered: int | None


class Client(msgspec.Struct):
    """One client software. `client_ids` and `not_random_member_ids` hold the first few, in order.

    `without_api_versions` counts connections, seen from their beginning, that were used without ever
    asking for the versions; `old_api_versions` those that asked below version 3 of a broker that has it.
    """

    client_software_name: str | None
    client_software_version: str | None
    connections: int
    requests: int
    client_ids: list[str]
    coverage: list[Coverage]
    without_api_versions: int
    old_api_versions: int
    not_random_member_ids: list[str]
    versions: list[VersionUse]

    @property
    def software(self) -> Software:
        """What tells this client software from another."""
        return self.client_software_name, self.client_software_version


class _Deeds(msgspec.Struct):
    """What was done on one connection or, added up, by one client software."""

    connections: int = 0
    requests: int = 0
    client_ids: dict[str, None] = {}
    checks: dict[tuple[str, str], int] = {}
    without_api_versions: int = 0
    old_api_versions: int = 0
    not_random: dict[str, None] = {}
    versions: dict[int, dict[int, int]] = {}
    offered: dict[int, int] = {}

    def hear(self, observation: Observation) -> None:
        """Take in what a connection said."""
        if observation.kind is not Kind.REQUEST:
            return
        self.requests += observation.count
        used = self.versions.setdefault(observation.api_key, {})
        used[observation.api_version] = used.get(observation.api_version, 0) + observation.count
        if isinstance(observation.body, Heartbeat) and _is_not_random(observation.body.member_id or ""):
            _name(self.not_random, observation.body.member_id or "")

    def count(self, checks: Checks) -> None:
        """Add verdicts by (rule id, verdict)."""
        for key, count in checks.items():
            self.checks[key] = self.checks.get(key, 0) + count

    def offer(self, ranges: Ranges) -> None:
        """Take in the versions that a broker offers."""
        for key, (_, highest) in ranges.items():
            self.offered[key] = max(self.offered.get(key, highest), highest)

    def conclude(self, conversation: Conversation) -> None:
        """Work out, once no more will be said on a connection, what it did not say."""
        self.connections = 1
        if conversation.client_id is not None:
            _name(self.client_ids, conversation.client_id)
        asked = max(self.versions.get(API_VERSIONS, {}), default=None)
        if asked is None:
            self.without_api_versions = int(conversation.beginning_seen and self.requests > 0)
        elif asked < TELLING_VERSION <= self.offered.get(API_VERSIONS, 0):
            self.old_api_versions = 1

    def add(self, other: _Deeds) -> None:
        """Add those of a connection."""
        self.connections += other.connections
        self.requests += other.requests
        self.without_api_versions += other.without_api_versions
        self.old_api_versions += other.old_api_versions
        self.count(other.checks)
        for names, more in ((self.client_ids, other.client_ids), (self.not_random, other.not_random)):
            for name in more:
                _name(names, name)
        for key, versions in other.versions.items():
            used = self.versions.setdefault(key, {})
            for version, count in versions.items():
                used[version] = used.get(version, 0) + count
        for key, highest in other.offered.items():
            self.offered[key] = max(self.offered.get(key, highest), highest)


class Fleet:
    """Gathers. What is open is kept by connection; what has closed, by client software alone."""

    def __init__(self, rules: Iterable[Rule], api_names: Mapping[int, str]) -> None:
        self._rules = list(rules)
        self._api_names = api_names
        self._open: dict[bytes, tuple[Conversation, _Deeds]] = {}
        self._software: dict[bytes, Software] = {}
        self._deeds: dict[Software, _Deeds] = {}
        self._brokers: dict[tuple[str, str], Broker] = {}

    def hear(self, conversation: Conversation, observations: Iterable[Observation], checks: Checks) -> None:
        """Take in what a connection said and how it was judged; the conversation has heard it already."""
        _, deeds = self._open.setdefault(conversation.connection, (conversation, _Deeds()))
        for observation in observations:
            deeds.hear(observation)
        deeds.count(checks)
        if conversation.advertised is not None:
            deeds.offer(conversation.advertised.ranges)
            self._meet_broker(conversation, conversation.advertised.ranges)
        if conversation.closed:
            self._conclude(conversation.connection)

    def hear_judged(self, judged: Iterable[tuple[bytes, str, str]]) -> None:
        """Take in verdicts on what connections share, by (connection, rule id, verdict)."""
        for connection, rule_id, verdict in judged:
            checks = {(rule_id, verdict): 1}
            if connection in self._open:
                self._open[connection][1].count(checks)
            else:
                software = self._software.get(connection, (None, None))
                self._deeds.setdefault(software, _Deeds()).count(checks)

    def finish(self) -> None:
        """Conclude what is still open: the source has ended."""
        for connection in list(self._open):
            self._conclude(connection)

    def clients(self) -> list[Client]:
        """Give every client software, by name; the unknown ones last."""
        return [
            _client(software, deeds, self._rules, self._api_names)
            for software, deeds in sorted(self._deeds.items(), key=lambda item: order(item[0]))
        ]

    def brokers(self) -> list[Broker]:
        """Give every broker that told its versions, by address."""
        return [self._brokers[place] for place in sorted(self._brokers)]

    def _meet_broker(self, conversation: Conversation, ranges: Ranges) -> None:
        place = (conversation.cluster, conversation.server)
        self._brokers[place] = Broker(*place, ranges)

    def _conclude(self, connection: bytes) -> None:
        conversation, deeds = self._open.pop(connection)
        deeds.conclude(conversation)
        told = conversation.software
        software = (told.name, told.version) if told else (None, None)
        self._software[connection] = software
        self._deeds.setdefault(software, _Deeds()).add(deeds)


def order(software: Software) -> tuple[bool, str, str]:
    """Order client software by name and version, the unknown last."""
    name, version = software
    return name is None, name or "", version or ""


def software_text(software: Software) -> str:
    """Name a client software as the wire does; what is unknown is called so."""
    return " ".join(part for part in software if part) or "unknown"


def _client(software: Software, deeds: _Deeds, rules: Iterable[Rule], api_names: Mapping[int, str]) -> Client:
    return Client(
        *software,
        connections=deeds.connections,
        requests=deeds.requests,
        client_ids=list(deeds.client_ids),
        coverage=coverage_of(deeds.checks, rules),
        without_api_versions=deeds.without_api_versions,
        old_api_versions=deeds.old_api_versions,
        not_random_member_ids=list(deeds.not_random),
        versions=[
            VersionUse(
                api_name(api_names, key), key, tuple(sorted(used)), sum(used.values()), deeds.offered.get(key)
            )
            for key, used in sorted(deeds.versions.items())
        ],
    )


def _name(names: dict[str, None], name: str) -> None:
    if len(names) < NAMED_IDS:
        names[name] = None


def _is_not_random(member_id: str) -> bool:
    """Whether a member ID is a UUID without the bits of a random one (RFC 9562, version 4)."""
    found = identifier_bytes(member_id)
    return found is not None and (found[6] >> 4 != 4 or found[8] >> 6 != 2)
