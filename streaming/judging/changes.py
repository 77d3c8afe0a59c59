"""Changes of connections, group members and brokers, for the archive.

A change holds all that is known of its subject, so the latest one tells how things stand.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar

import msgspec
import numpy as np

from decoders.frame.record import Closing
from decoders.protocol import HEARTBEAT_APIS, JOIN_GROUP, JOINING, NO_ERROR
from expectations.conversation.bodies import (
    NO_NODE,
    AdvertisedRanges,
    Advertisement,
    ClassicGroup,
    ClusterDescription,
    Features,
    Heartbeat,
    SoftwareClaim,
)
from expectations.conversation.conversation import Conversation
from expectations.conversation.members import Member, member_name, split_name
from expectations.conversation.observation import ConnectionKey, Statement, Window
from expectations.identity.server_claim import LONGEST_ADVERTISEMENT
from expectations.judging.judge import ConnectionState
from streaming.judging.part import Part

LIMIT: Final = 4_000
"""Changes of one kind that one step of a bucket describes; further ones are counted."""
CLASSIC: Final = "classic"
PROTOCOLS: Final[Mapping[int, str]] = {
    key: name.removesuffix("GroupHeartbeat").lower() for key, name in HEARTBEAT_APIS.items()
}
"""The protocol of a group by the API of its heartbeats: consumer, share or streams."""
_DIGEST_BYTES: Final = 8


class ConnectionChange(msgspec.Struct, frozen=True, array_like=True):
    """A connection as it was at `at`, after it changed.

    `joined` means that its beginning was not seen, `ranges` is the `ranges_id` of what the broker advertised
    on it. `asked_at` is the time of its first ApiVersions request, `used_at` that of its first other one but
    SASL, `rebootstrap_at` that of a response with error 129. `closing` is NONE while it is open. Times are in
    nanoseconds since the epoch, 0 for what did not happen.
    """

    at: int
    connection: bytes
    cluster: str
    listener: str
    client: str
    server: str
    opened_at: int
    joined: bool
    software: SoftwareClaim | None
    client_id: str | None
    instance_id: bytes | None
    uses_header_v3: bool
    ranges: str | None
    asked_at: int
    used_at: int
    rebootstrap_at: int
    closing: Closing
    closed_by_broker: bool


class MemberChange(msgspec.Struct, frozen=True, array_like=True):
    """A group member on a connection as it was at `at`, after it changed.

    `member_id`, `epoch` and `error_code` are None for the classic protocol. `error_code` is that of the
    latest answered heartbeat. `has_joined` and `has_left` say what the member did since the previous change;
    a `ghost` did not leave before its connection ended.
    """

    at: int
    connection: bytes
    cluster: str
    listener: str
    software: SoftwareClaim | None
    client_id: str | None
    protocol: str
    group_id: str
    member_id: str | None
    api_version: int
    epoch: int | None = None
    error_code: int | None = None
    has_joined: bool = False
    has_left: bool = False
    ghost: bool = False


class BrokerShown(msgspec.Struct, frozen=True, array_like=True):
    """What a broker showed of itself on a connection. What it has not shown is None, or NO_NODE.

    `body_version` is the version of the ApiVersions response, `ranges` are ordered by API key.
    """

    cluster: str
    listener: str
    server: str
    body_version: int | None
    ranges: AdvertisedRanges | None
    supported_features: Features | None
    finalized_features: Features | None
    cluster_id: str | None = None
    node_id: int = NO_NODE

    @classmethod
    def of(cls, cluster: str, listener: str, server: str, advertised: Advertisement) -> BrokerShown:
        """Return what an advertisement shows."""
        ranges = tuple(sorted(advertised.ranges)[:LONGEST_ADVERTISEMENT])
        features = advertised.supported_features, advertised.finalized_features
        return cls(cluster, listener, server, advertised.body_version, ranges, *features)


class Showings(msgspec.Struct, array_like=True):
    """How often something was shown, and when first and last, in nanoseconds since the epoch."""

    count: int
    first: int
    last: int

    def add(self, other: Showings) -> None:
        """Add other showings of the same."""
        self.count += other.count
        self.first = min(self.first, other.first)
        self.last = max(self.last, other.last)


class Changes(msgspec.Struct, array_like=True):
    """The changes of one step. `further` counts those beyond LIMIT: connections, members, brokers."""

    connections: list[ConnectionChange] = []
    members: list[MemberChange] = []
    brokers: list[tuple[BrokerShown, Showings]] = []
    further: tuple[int, ...] = (0, 0, 0)


def ranges_id(ranges: Iterable[tuple[int, int, int]]) -> str:
    """Identify advertised ranges: equal ones have equal IDs, in any order. 16 hex digits of a digest."""
    encoded = msgspec.msgpack.encode(sorted(ranges))
    return hashlib.blake2b(encoded, digest_size=_DIGEST_BYTES).hexdigest()


MemberFacts = tuple[int, int]
"""The epoch of a member's latest heartbeat, and the error code of the latest response to one."""
_UNKNOWN_API: Final = -1
KNOWN_RANGES: Final = 64
"""Different advertised ranges whose IDs are remembered: most connections are told the same."""
_Change = TypeVar("_Change", ConnectionChange, MemberChange)


class Before(NamedTuple):
    """What was known of a connection before a window: nothing for a new one."""

    connection: ConnectionChange | None = None
    members: Mapping[str, MemberFacts] = MappingProxyType({})
    described: ClusterDescription | None = None


class ChangeCount:
    """Adds up the changes of one step. At most LIMIT of each kind are described."""

    def __init__(self, listener: Callable[[str], str]) -> None:
        """`listener` names the listener at a server's address."""
        self._listener = listener
        self._connections: list[ConnectionChange] = []
        self._members: list[MemberChange] = []
        self._brokers: dict[BrokerShown, Showings] = {}
        self._further = [0, 0, 0]

    def before(self, state: ConnectionState) -> Before:
        """Return what is known of a connection before a window."""
        conversation = state.conversation
        members = {name: _facts(member) for name, member in conversation.members.known.items()}
        connection = _connection(state, self._listener(conversation.server))
        return Before(connection, members, conversation.described)

    def add(self, window: Window, before: Before, state: ConnectionState, judged_until: int) -> None:
        """Add what a window changed of a connection, which is now `state`.

        Frames up to the sequence `judged_until` were judged before.
        """
        listener = self._listener(window.connection.server)
        now = _connection(state, listener)
        if now != before.connection:
            at = state.conversation.progress.captured_at
            self._keep(0, self._connections, msgspec.structs.replace(now, at=at))
        statements = list(_new_statements(window, judged_until))
        for change in _member_changes(statements, before, state, listener):
            self._keep(1, self._members, change)
        for shown, showings in _shown(statements, before, state.conversation, listener):
            self._add_broker(shown, showings)

    def add_classic(self, part: Part) -> None:
        """Add the requests of windows to join and leave classic groups: the latest of equal ones."""
        classic = [isinstance(statement.body, ClassicGroup) for statement in part.statements]
        at = np.array(classic, np.bool_)[part.templates] & part.is_new
        for number in np.unique(part.windows[at]).tolist():
            window, found = part.columns.window(number), dict[Statement, int]()
            for statement, captured_at, _ in _new_statements(window, int(part.latest[number])):
                if isinstance(statement.body, ClassicGroup):
                    found[statement] = captured_at
            listener = self._listener(window.connection.server)
            for statement, captured_at in found.items():
                said_by = part.software[number], part.clients[number] or None
                change = _classic(statement, window.connection, *said_by, listener, captured_at)
                self._keep(1, self._members, change)

    def report(self) -> Changes:
        """Return what was added."""
        return Changes(self._connections, self._members, list(self._brokers.items()), tuple(self._further))

    def _keep(self, kind: int, kept: list[_Change], change: _Change) -> None:
        if len(kept) < LIMIT:
            kept.append(change)
        else:
            self._further[kind] += 1

    def _add_broker(self, shown: BrokerShown, showings: Showings) -> None:
        known = self._brokers.get(shown)
        if known is not None:
            known.add(showings)
        elif len(self._brokers) < LIMIT:
            self._brokers[shown] = showings
        else:
            self._further[2] += showings.count


@functools.lru_cache(maxsize=KNOWN_RANGES)
def _ranges_id(ranges: tuple[tuple[int, tuple[int, int]], ...]) -> str:
    return ranges_id((key, *versions) for key, versions in ranges)


def _connection(state: ConnectionState, listener: str) -> ConnectionChange:
    """Describe a connection, but for the time."""
    conversation, negotiated = state.conversation, state.identities.negotiated
    advertised = conversation.advertised
    ranges = None
    if advertised is not None:
        ranges = _ranges_id(tuple(advertised.ranges.items()))
    return ConnectionChange(
        at=0,
        connection=conversation.connection,
        cluster=conversation.cluster,
        listener=listener,
        client=conversation.client,
        server=conversation.server,
        opened_at=conversation.opened_at,
        joined=conversation.joined,
        software=conversation.software,
        client_id=conversation.client_id or None,
        instance_id=conversation.instance_id,
        uses_header_v3=conversation.uses_header_v3,
        ranges=ranges,
        asked_at=negotiated.asked_at,
        used_at=negotiated.used_at,
        rebootstrap_at=negotiated.rebootstrap_at,
        closing=conversation.closing,
        closed_by_broker=conversation.closed_by_broker,
    )


def _new_statements(window: Window, judged_until: int) -> Iterator[tuple[Statement, int, int]]:
    """Yield the new statements of a window, each with the time of its last occurrence and its count."""
    for number, occurrence in zip(window.numbers, window.occurrences, strict=True):
        if occurrence.last_sequence > judged_until:
            yield window.statements[number], occurrence.last_captured_at, occurrence.count


def _facts(member: Member) -> MemberFacts:
    return member.epoch, member.error_code


def _member_changes(
    statements: Iterable[tuple[Statement, int, int]], before: Before, state: ConnectionState, listener: str
) -> Iterator[MemberChange]:
    said = _heartbeats(statements)
    conversation = state.conversation
    for name, member in conversation.members.known.items():
        beats = said.get(name, [])
        is_member = not member.has_left and member.error_code == NO_ERROR
        ghost = conversation.ended and is_member
        if not _has_changed(before.members.get(name), member, beats) and not ghost:
            continue
        group_id, member_id = split_name(name)
        api_key, api_version = _heartbeat_api(name, beats, state)
        yield MemberChange(
            at=conversation.progress.captured_at,
            connection=conversation.connection,
            cluster=conversation.cluster,
            listener=listener,
            software=conversation.software,
            client_id=conversation.client_id or None,
            protocol=PROTOCOLS.get(api_key, ""),
            group_id=group_id,
            member_id=member_id,
            api_version=api_version,
            epoch=member.epoch,
            error_code=member.error_code,
            has_joined=any(epoch == JOINING for _, epoch in beats),
            has_left=any(epoch < JOINING for _, epoch in beats),
            ghost=ghost,
        )


def _has_changed(before: MemberFacts | None, member: Member, beats: list[tuple[Statement, int]]) -> bool:
    """Whether a member has another epoch or error than before, or had another epoch meanwhile.

    A heartbeat that is sent again changes nothing.
    """
    return before != _facts(member) or any(epoch != before[0] for _, epoch in beats)


def _heartbeats(statements: Iterable[tuple[Statement, int, int]]) -> dict[str, list[tuple[Statement, int]]]:
    """Return the heartbeat requests by the name of their member, with their epochs."""
    said: dict[str, list[tuple[Statement, int]]] = {}
    for statement, _, _ in statements:
        body = statement.body
        if isinstance(body, Heartbeat) and body.group_id and body.member_id:
            epoch = body.member_epoch if body.member_epoch is not None else JOINING
            said.setdefault(member_name(body.group_id, body.member_id), []).append((statement, epoch))
    return said


def _heartbeat_api(name: str, beats: list[tuple[Statement, int]], state: ConnectionState) -> tuple[int, int]:
    """Return the API and version of a member's latest heartbeat, else of its first one."""
    if beats:
        return beats[-1][0].api_key, beats[-1][0].api_version
    shown = state.identities.members.get(name)
    return (shown.api_key, shown.api_version) if shown else (_UNKNOWN_API, _UNKNOWN_API)


def _shown(
    statements: Iterable[tuple[Statement, int, int]],
    before: Before,
    conversation: Conversation,
    listener: str,
) -> Iterator[tuple[BrokerShown, Showings]]:
    """Yield the advertisements of a window, or else a new description of the broker."""
    described = conversation.described or ClusterDescription(None, NO_NODE)
    where = conversation.cluster, listener, conversation.server
    who = described.cluster_id, described.node_id
    has_advertised = False
    for statement, at, count in statements:
        body = statement.body
        if isinstance(body, Advertisement) and body.error_code == NO_ERROR and statement.is_matched:
            has_advertised = True
            shown = BrokerShown.of(*where, body)
            shown = msgspec.structs.replace(shown, cluster_id=described.cluster_id, node_id=described.node_id)
            yield shown, Showings(count, at, at)
    if not has_advertised and conversation.described not in (None, before.described):
        at = conversation.progress.captured_at
        yield BrokerShown(*where, None, None, None, None, *who), Showings(1, at, at)


def _classic(  # noqa: PLR0917 - who said it, and where
    statement: Statement,
    key: ConnectionKey,
    software: SoftwareClaim | None,
    client_id: str | None,
    listener: str,
    at: int,
) -> MemberChange:
    assert isinstance(statement.body, ClassicGroup)
    joins = statement.api_key == JOIN_GROUP
    return MemberChange(
        at=at,
        connection=key.id,
        cluster=key.cluster,
        listener=listener,
        software=software,
        client_id=client_id,
        protocol=CLASSIC,
        group_id=statement.body.group_id,
        member_id=None,
        api_version=statement.api_version,
        has_joined=joins,
        has_left=not joins,
    )
