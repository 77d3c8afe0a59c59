"""Collects the changes of one step: of connections that the judge read, and of classic groups on all."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar

import msgspec

from decoders.protocol import JOIN_GROUP, JOINING, NO_ERROR
from expectations.conversation.bodies import (
    NO_NODE,
    Advertisement,
    ClassicGroup,
    ClusterDescription,
    Heartbeat,
)
from expectations.conversation.conversation import Conversation
from expectations.conversation.members import Member, member_name
from expectations.conversation.statement import Statement
from expectations.conversation.window import Window
from expectations.identity.server_claim import LONGEST_ADVERTISEMENT
from expectations.judging.judge import ConnectionState
from streaming.judging.changes import (
    CLASSIC,
    LIMIT,
    PROTOCOLS,
    BrokerShown,
    Changes,
    ConnectionChange,
    MemberChange,
    Showings,
    ranges_id,
)
from streaming.judging.usage import Speaker

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

    @classmethod
    def of(cls, state: ConnectionState, listener: str) -> Before:
        """Return what is known of a connection now."""
        conversation = state.conversation
        members = {name: _facts(member) for name, member in conversation.members.known.items()}
        return cls(_connection(state, listener), members, conversation.described)


class ChangeCount:
    """Adds up the changes of one step. At most LIMIT of each kind are described."""

    def __init__(self) -> None:
        self._connections: list[ConnectionChange] = []
        self._members: list[MemberChange] = []
        self._brokers: dict[BrokerShown, Showings] = {}
        self._further = [0, 0, 0]

    def add(
        self, window: Window, before: Before, state: ConnectionState, listener: str, judged_until: int = 0
    ) -> None:
        """Add what a window changed of a connection, which is now `state`.

        Frames up to the sequence `judged_until` were judged before.
        """
        now = _connection(state, listener)
        if now != before.connection:
            at = state.conversation.progress.captured_at
            self._keep(0, self._connections, msgspec.structs.replace(now, at=at))
        statements = list(_new_statements(window, judged_until))
        for change in _member_changes(statements, before, state, listener):
            self._keep(1, self._members, change)
        for shown, showings in _shown(statements, before, state.conversation, listener):
            self._add_broker(shown, showings)

    def add_known(self, changes: Changes) -> None:
        """Add the changes of one connection."""
        for connection in changes.connections:
            self._keep(0, self._connections, connection)
        for member in changes.members:
            self._keep(1, self._members, member)
        for shown, showings in changes.brokers:
            self._add_broker(shown, showings)

    def add_classic(self, window: Window, speaker: Speaker, listener: str, judged_until: int = 0) -> None:
        """Add the requests of a window to join and leave classic groups: the latest of equal ones."""
        found: dict[Statement, int] = {}
        for statement, at, _ in _new_statements(window, judged_until):
            if isinstance(statement.body, ClassicGroup):
                found[statement] = at
        for statement, at in found.items():
            self._keep(1, self._members, _classic(statement, window, speaker, listener, at))

    def report(self) -> Changes:
        """Return what was added."""
        connections, members, brokers = self._further
        shown = list(self._brokers.items())
        return Changes(self._connections, self._members, shown, (connections, members, brokers))

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
        if not _moved(before.members.get(name), member, beats) and not ghost:
            continue
        group_id, _, member_id = name.partition("\0")
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


def _moved(before: MemberFacts | None, member: Member, beats: list[tuple[Statement, int]]) -> bool:
    """Whether a member has another epoch or error than before, or had another epoch meanwhile.

    A heartbeat that is sent again changes nothing: the judgement cache gives its verdict without the judge.
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
            ranges = tuple(sorted(body.ranges)[:LONGEST_ADVERTISEMENT])
            features = body.supported_features, body.finalized_features
            yield BrokerShown(*where, body.body_version, ranges, *features, *who), Showings(count, at, at)
    if not has_advertised and conversation.described not in (None, before.described):
        at = conversation.progress.captured_at
        yield BrokerShown(*where, None, None, None, None, *who), Showings(1, at, at)


def _classic(statement: Statement, window: Window, speaker: Speaker, listener: str, at: int) -> MemberChange:
    assert isinstance(statement.body, ClassicGroup)
    joins = statement.api_key == JOIN_GROUP
    return MemberChange(
        at=at,
        connection=window.connection.id,
        cluster=speaker.cluster,
        listener=listener,
        software=speaker.software,
        client_id=speaker.client_id,
        protocol=CLASSIC,
        group_id=statement.body.group_id,
        member_id=None,
        api_version=statement.api_version,
        has_joined=joins,
        has_left=not joins,
    )
