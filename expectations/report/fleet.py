"""The fleet: what each client software did, recorded connection by connection while a source is judged.

`Fleet.record` takes what is observed of a connection. Open connections are kept one by one, as an `Activity`
(counts, verdicts, header bytes) and as `UsedVersions`. When one ends, its activity is added to its client
software's, and its versions to those of the software and client ID.

An activity also has facts that are worth knowing but are no offence: connections without ApiVersions,
ApiVersions below the version that names the software, member IDs that are not random UUIDs, and the API
versions in use beside those that brokers offer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from decoders.frame.record import Kind
from decoders.protocol import API_VERSIONS, NAMES_SOFTWARE_FROM
from expectations.conversation.bodies import Heartbeat
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import NOT_CAPTURED, Observation
from expectations.conversation.texts import UUID_BYTES, identifier_bytes
from expectations.judging.terms import OwnerOf, names_of
from expectations.report.client import Client, Software, VersionUse, software_order
from expectations.report.coverage import Checks, coverage_of
from expectations.report.versions import AdvertisingBroker, Ranges, api_name
from expectations.rules.base.rule import Rule

LISTED_IDS = 20
"""How many client IDs and member IDs are listed for a client software."""


class HeaderBytes(msgspec.Struct):
    """The figures on which KIP-1313 rests: bytes of client IDs in request headers, of a connection or in sum.

    A client on request header v3 sends its client ID in the first request of a connection and null afterwards
    (Motivation; Proposed Changes). The length prefix stays, so a null saves the bytes of the text. In
    exchange each header has the 16 bytes of the client instance ID.

    `requests` have a header that is certain, `on_header_v3` of them header v3. `with_client_id` have a client
    ID, and `nulls_on_v3` have header v3 and none. `repeated` are the bytes of client IDs that were sent after
    the first of a connection, `saved` those that nulls on header v3 saved.
    """

    requests: int = 0
    on_header_v3: int = 0
    with_client_id: int = 0
    nulls_on_v3: int = 0
    repeated: int = 0
    saved: int = 0

    @property
    def instance_ids(self) -> int:
        """Bytes of client instance IDs."""
        return self.on_header_v3 * UUID_BYTES

    def record(self, observation: Observation) -> None:
        """Record an observation of a connection. Only requests whose header is certain count."""
        if observation.kind is not Kind.REQUEST or not observation.has_header:
            return
        self.requests += observation.count
        self.on_header_v3 += observation.count * observation.uses_header_v3
        if observation.client_id is not None:
            self.with_client_id += observation.count
        elif observation.uses_header_v3:
            self.nulls_on_v3 += observation.count

    def conclude(self, conversation: Conversation) -> None:
        """Complete the bytes of a connection that has ended."""
        length = len((conversation.client_id or "").encode("utf-8", "surrogatepass"))
        self.repeated = length * max(0, self.with_client_id - 1)
        self.saved = length * self.nulls_on_v3

    def add(self, other: HeaderBytes) -> None:
        """Add those of a connection that has ended."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Activity(msgspec.Struct):
    """Counts and facts of one connection, or of all connections of one client software.

    `versions` counts requests by API key and version, `offered` holds the highest version that a broker
    advertised by API key. `client_ids` and `not_random` are the first IDs seen, in order.
    """

    connections: int = 0
    requests: int = 0
    client_ids: dict[str, None] = {}
    owners: dict[str, None] = {}
    principals: dict[str, None] = {}
    checks: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)
    without_api_versions: int = 0
    old_api_versions: int = 0
    not_random: dict[str, None] = {}
    versions: dict[int, Counter[int]] = {}
    offered: dict[int, int] = {}
    headers: HeaderBytes = msgspec.field(default_factory=HeaderBytes)

    def record(self, observation: Observation) -> None:
        """Record an observation of a connection. Only requests are counted."""
        if observation.kind is not Kind.REQUEST:
            return
        self.headers.record(observation)
        self.requests += observation.count
        used = self.versions.setdefault(observation.api_key, Counter())
        used[observation.api_version] += observation.count
        if isinstance(observation.body, Heartbeat) and _is_not_random(observation.body.member_id or ""):
            _list(self.not_random, observation.body.member_id or "")

    def count(self, checks: Checks) -> None:
        """Add checks by (rule ID, ruling)."""
        self.checks.update(checks)

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
        if conversation.principal is not None:
            _list(self.principals, conversation.principal)
        asked = self.versions.get(API_VERSIONS, Counter())
        if NOT_CAPTURED in self.versions or NOT_CAPTURED in asked:
            return  # What was not captured may be ApiVersions, in any version.
        if not asked:
            self.without_api_versions = int(conversation.beginning_seen and self.requests > 0)
        elif max(asked) < NAMES_SOFTWARE_FROM <= self.offered.get(API_VERSIONS, 0):
            self.old_api_versions = 1

    def add(self, other: Activity) -> None:
        """Add the activity of a connection."""
        self.connections += other.connections
        self.requests += other.requests
        self.without_api_versions += other.without_api_versions
        self.old_api_versions += other.old_api_versions
        self.count(other.checks)
        self.headers.add(other.headers)
        for listed in ("client_ids", "owners", "principals", "not_random"):
            for name in getattr(other, listed):
                _list(getattr(self, listed), name)
        for key, versions in other.versions.items():
            self.versions.setdefault(key, Counter()).update(versions)
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
            owners=list(self.owners),
            principals=list(self.principals),
        )

    def _use(self, key: int, api_names: Mapping[int, str]) -> VersionUse:
        used = self.versions[key]
        known = tuple(version for version in sorted(used) if version != NOT_CAPTURED)
        if key == NOT_CAPTURED:
            return VersionUse("unknown", None, known, sum(used.values()), None)
        return VersionUse(api_name(api_names, key), key, known, sum(used.values()), self.offered.get(key))


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
    """The API versions used on one connection, or on all connections of one client.

    `without_api_versions` counts connections, seen from their beginning, that sent requests but never
    ApiVersions. `may_have_asked` means that one connection sent ApiVersions, or a request of which too little
    was captured to know its API.
    """

    connections: int = 0
    without_api_versions: int = 0
    uses: dict[tuple[int, int], RequestCount] = {}
    may_have_asked: bool = False

    def record(self, observation: Observation) -> None:
        """Record an observation of a connection. Only requests of a known API and version are counted."""
        if observation.kind is not Kind.REQUEST:
            return
        version = observation.api_key, observation.api_version
        self.may_have_asked = self.may_have_asked or version[0] in (API_VERSIONS, NOT_CAPTURED)
        if min(version) >= 0:
            self.uses.setdefault(version, RequestCount()).add(
                RequestCount(observation.count, observation.last_captured_at)
            )

    def conclude(self, conversation: Conversation) -> None:
        """Complete the usage of a connection that has ended with what its client was offered."""
        self.connections = 1
        is_seen = conversation.beginning_seen and bool(self.uses)
        self.without_api_versions = int(is_seen and not self.may_have_asked)
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
    """The usage of one client: a software with a client ID."""

    software: Software
    client_id: str | None
    usage: UsedVersions


class Party(NamedTuple):
    """Who opens connections, and whose they are: None for nobody's. `host` is an address without a port."""

    owner: str | None
    client_id: str | None
    software: Software
    host: str
    principal: str | None


class UsageByClient:
    """The usage of closed connections in sum, by client software and client ID."""

    def __init__(self) -> None:
        self._usages: dict[tuple[Software, str | None], UsedVersions] = {}

    def add(self, conversation: Conversation, usage: UsedVersions) -> None:
        """Add a connection that has ended."""
        usage.conclude(conversation)
        self._usages.setdefault((_software(conversation), conversation.client_id), UsedVersions()).add(usage)

    def clients(self) -> list[ClientUsage]:
        """Return the usage of each client, ordered by software and client ID."""
        order = sorted(self._usages, key=lambda key: (software_order(key[0]), key[1] is None, key[1] or ""))
        return [ClientUsage(*client, self._usages[client]) for client in order]


class Fleet:
    """The activity of open connections, one by one, and of closed ones in sum by client software."""

    def __init__(
        self,
        rules: Iterable[Rule],
        api_names: Mapping[int, str],
        owner: OwnerOf,
    ) -> None:
        """`owner` tells whose a client is."""
        self._rules = list(rules)
        self._owner = owner
        self._parties: Counter[Party] = Counter()
        self._api_names = api_names
        self._open: dict[bytes, tuple[Conversation, Activity, UsedVersions]] = {}
        self._software: dict[bytes, Software] = {}
        self._activities: dict[Software, Activity] = {}
        self._brokers: dict[tuple[str, str], AdvertisingBroker] = {}
        self._usage = UsageByClient()

    def record(self, conversation: Conversation, observations: Iterable[Observation], checks: Checks) -> None:
        """Record observations of a connection, already processed by its conversation, and their checks."""
        begun = conversation, Activity(), UsedVersions()
        _, activity, usage = self._open.setdefault(conversation.connection, begun)
        for observation in observations:
            activity.record(observation)
            usage.record(observation)
        activity.count(checks)
        if conversation.advertised is not None:
            activity.offer(conversation.advertised.ranges)
            self._record_broker(conversation, conversation.advertised.ranges)
        if conversation.closed:
            self._conclude(conversation.connection)

    def record_shared(self, judged: Iterable[tuple[bytes, str, str]]) -> None:
        """Record checks of what connections share, each as (connection, rule ID, ruling)."""
        for connection, rule_id, ruling in judged:
            checks = {(rule_id, ruling): 1}
            if connection in self._open:
                self._open[connection][1].count(checks)
            else:
                software = self._software.get(connection, (None, None))
                self._activities.setdefault(software, Activity()).count(checks)

    def finish(self) -> None:
        """Complete the connections that are still open: the source has ended."""
        for connection in list(self._open):
            self._conclude(connection)

    def clients(self) -> list[Client]:
        """Return every client software, ordered by name, the unknown last."""
        return [
            activity.client(software, self._rules, self._api_names)
            for software, activity in sorted(
                self._activities.items(), key=lambda item: software_order(item[0])
            )
        ]

    def brokers(self) -> list[AdvertisingBroker]:
        """Return every broker that advertised versions, ordered by cluster and address."""
        return [self._brokers[place] for place in sorted(self._brokers)]

    def usage(self) -> list[ClientUsage]:
        """Return what each client used, by software and client ID."""
        return self._usage.clients()

    def parties(self) -> list[tuple[Party, int]]:
        """Return who connected, and how often: those of an owner together, nobody's last."""
        return sorted(
            self._parties.items(),
            key=lambda found: (found[0].owner is None, found[0].owner or "", *_order(found[0])),
        )

    def _record_broker(self, conversation: Conversation, ranges: Ranges) -> None:
        place = (conversation.cluster, conversation.server)
        self._brokers[place] = AdvertisingBroker(*place, ranges)

    def _conclude(self, connection: bytes) -> None:
        conversation, activity, usage = self._open.pop(connection)
        activity.conclude(conversation)
        software = self._software[connection] = _software(conversation)
        names = names_of(conversation)
        owner = self._owner(names)
        if owner is not None:
            _list(activity.owners, owner)
        self._parties[Party(owner, names.client_id, software, names.host, names.principal)] += 1
        self._usage.add(conversation, usage)
        self._activities.setdefault(software, Activity()).add(activity)


def _order(party: Party) -> tuple[object, ...]:
    named = party.client_id is None, party.client_id or "", software_order(party.software)
    return *named, party.host, party.principal or ""


def _software(conversation: Conversation) -> Software:
    claimed = conversation.software
    return (claimed.name, claimed.version) if claimed else (None, None)


def _list(names: dict[str, None], name: str) -> None:
    if len(names) < LISTED_IDS:
        names[name] = None


def _is_not_random(member_id: str) -> bool:
    """Whether a member ID is a UUID without the bits of a random one (RFC 9562, version 4)."""
    found = identifier_bytes(member_id)
    return found is not None and (found[6] >> 4 != 4 or found[8] >> 6 != 2)
