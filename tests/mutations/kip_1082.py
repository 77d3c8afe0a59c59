"""What breaks the rules of KIP-1082, one thing at a time."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Callable, Iterator

from decoders.frame.record import Direction
from tests.mutations.bodies import (
    HEARTBEAT_APIS,
    INSTANCE_ID,
    INVALID_REQUEST,
    JOIN,
    LEAVE,
    MEMBER_ID,
    MEMBER_REQUESTS,
    ONE_ID,
    OTHER_MEMBER_ID,
    ZERO_TEXT,
    response_body,
)
from tests.mutations.kip_1313_alignment import with_member_id
from tests.mutations.mutator import breaks
from tests.mutations.script import FIRST, SECOND_ONE, Ask, Close, Script

SHARE_APIS = ("ShareGroupHeartbeat", "ShareFetch", "ShareAcknowledge")
ONE_TEXT = base64.urlsafe_b64encode(ONE_ID).decode().rstrip("=")


def _heartbeats(script: Script) -> Iterator[tuple[int, Ask]]:
    return ((place, ask) for place, ask in script.targets() if ask.api in HEARTBEAT_APIS)


def _needs_member_id(ask: Ask) -> bool:
    """ConsumerGroupHeartbeat v0 may join without an ID."""
    return ask.api != "ConsumerGroupHeartbeat" or ask.version > 0 or ask.body["memberEpoch"] != JOIN


def _without_member(ask: Ask, member_id: str, error_code: int) -> Ask:
    response = response_body(ask.known, ask.version, error_code, memberId="")
    return dataclasses.replace(ask, body={**ask.body, "memberId": member_id}, response=response)


@breaks("kip1082/member-id-empty")
def name_nobody(script: Script) -> Iterator[Script]:
    for place, ask in _heartbeats(script):
        for nobody in ("", " \t"):
            if _needs_member_id(ask):
                mutant = script.put(place, _without_member(ask, nobody, INVALID_REQUEST))
                yield mutant
                if ask.api == "ConsumerGroupHeartbeat" and ask.version > 1:
                    yield mutant.read_as("kip1082=text")


@breaks("kip1082/member-id-empty")
def name_null(script: Script) -> Iterator[Script]:
    """The broker cannot read it and closes."""
    for place, ask in _heartbeats(script):
        if (ask.api, ask.version) != ("ConsumerGroupHeartbeat", 0) and not ask.known.is_overlay(ask.version):
            yield script.broken_off(place, Direction.TO_CLIENT, alter=_null_member_id, response=None)


def _null_member_id(frame: bytes) -> bytes:
    """A compact string is its length plus one and its bytes, a null one a single zero."""
    for member_id in (MEMBER_ID, OTHER_MEMBER_ID):
        frame = frame.replace(bytes([len(member_id) + 1]) + member_id.encode(), b"\0")
    return frame


@breaks("kip1082/member-id-empty-accepted")
def accept_nobody(script: Script) -> Iterator[Script]:
    for place, ask in _heartbeats(script):
        if _needs_member_id(ask):
            yield script.put(place, _without_member(ask, "", 0))


@breaks("kip1082/member-id-changed")
def rejoin_as_another(script: Script) -> Iterator[Script]:
    for place in _places_of(script, JOIN)[1:]:
        yield _from(script, place, lambda ask: with_member_id(ask, OTHER_MEMBER_ID))


@breaks("kip1082/member-id-changed")
def go_on_as_another(script: Script) -> Iterator[Script]:
    for place in _places_of(script, LEAVE)[:1]:
        yield _from(script, place - 1, lambda ask: with_member_id(ask, OTHER_MEMBER_ID))


@breaks("kip1082/member-id-changed")
def retry_as_another(script: Script) -> Iterator[Script]:
    """The response to the join is lost with the connection."""
    for place in _places_of(script, JOIN)[:1]:
        join = script.changed(place, response=None).steps[place]
        assert isinstance(join, Ask)
        retry = dataclasses.replace(with_member_id(join, OTHER_MEMBER_ID), response=None)
        mutant = script.put(place, join, retry)
        yield mutant.broken_off(place + 1, Direction.TO_CLIENT)


def _places_of(script: Script, epoch: int) -> list[int]:
    """Where the one member of a script with one connection joins or leaves."""
    if any(ask.on == SECOND_ONE for _, ask in script.asks()) or script.focus is not None:
        return []
    return [place for place, ask in _heartbeats(script) if ask.body["memberEpoch"] == epoch]


def _from(script: Script, place: int, change: Callable[[Ask], Ask]) -> Script:
    """This script with every request changed from a place on."""
    steps = [
        change(step) if at >= place and isinstance(step, Ask) else step
        for at, step in enumerate(script.steps)
    ]
    return dataclasses.replace(script, steps=tuple(steps))


def _with_all_member_ids(script: Script, member_id: str) -> Iterator[Script]:
    """This script, if it has one member, with another ID of it throughout."""
    members = {ask.body["memberId"] for _, ask in script.asks() if ask.api in HEARTBEAT_APIS}
    if members == {MEMBER_ID}:
        yield script.each(lambda ask: with_member_id(ask, member_id))


@breaks("kip1082/member-id-reserved")
def be_a_reserved_member(script: Script) -> Iterator[Script]:
    for member_id in (ZERO_TEXT, ONE_TEXT):
        yield from _with_all_member_ids(script, member_id)


@breaks("kip1082/member-id-not-uuid")
def be_a_named_member(script: Script) -> Iterator[Script]:
    for member_id in ("orders-1", MEMBER_ID[:-1], MEMBER_ID + "A"):
        yield from _with_all_member_ids(script, member_id)


@breaks("kip1082/member-id-not-base64url")
def write_the_uuid_otherwise(script: Script) -> Iterator[Script]:
    in_hex = INSTANCE_ID.hex()
    dashed = "-".join((in_hex[:8], in_hex[8:12], in_hex[12:16], in_hex[16:20], in_hex[20:]))
    for member_id in (MEMBER_ID + "==", in_hex, dashed):
        yield from _with_all_member_ids(script, member_id)


@breaks("kip1082/member-id-too-long")
def be_a_long_member(script: Script) -> Iterator[Script]:
    if any(ask.api in SHARE_APIS for _, ask in script.asks()):
        yield script.each(_with_long_member_id)


def _with_long_member_id(ask: Ask) -> Ask:
    return with_member_id(ask, ask.body["memberId"].ljust(37, "x")) if ask.api in SHARE_APIS else ask


@breaks("kip1082/member-id-rewritten")
def rename_the_member(script: Script) -> Iterator[Script]:
    for place, ask in _heartbeats(script):
        renamed = MEMBER_ID if ask.body["memberId"] == OTHER_MEMBER_ID else OTHER_MEMBER_ID
        yield script.changed(place, response={**(ask.response or {}), "memberId": renamed})


@breaks("kip1082/member-id-assigned-late")
def join_as_nobody(script: Script) -> Iterator[Script]:
    for place, ask in _heartbeats(script):
        if not _needs_member_id(ask):
            yield script.changed(place, body={**ask.body, "memberId": ""})


@breaks("kip1082/member-id-shared")
def share_the_member_id(script: Script) -> Iterator[Script]:
    """Two members that heartbeat in turns become one."""
    closed = {step.on for step in script.steps[:3] if isinstance(step, Close)}
    beats = [ask.on for _, ask in script.asks() if ask.api in HEARTBEAT_APIS]
    if not closed and beats[1:2] == [SECOND_ONE] and beats[-1] == FIRST:
        yield script.each(lambda ask: with_member_id(ask, MEMBER_ID))


@breaks("kip1082/member-id-changed")
def come_back_as_another_member(script: Script) -> Iterator[Script]:
    """The client instance ID tells that it is the same client."""
    closed = {step.on for step in script.steps if isinstance(step, Close) and step.on == FIRST}
    beats = [ask for _, ask in script.asks(SECOND_ONE) if ask.api in HEARTBEAT_APIS and ask.header == 3]
    if closed and beats and beats[0].body["memberEpoch"] == JOIN:
        yield script.each(lambda ask: with_member_id(ask, OTHER_MEMBER_ID) if ask.on == SECOND_ONE else ask)


@breaks("kip1082/member-id-changed")
def join_again_as_another_after_a_reset(script: Script) -> Iterator[Script]:
    """The correlation IDs tell that it is the same client: they go on, on the next connection."""
    asks = [ask for _, ask in script.asks()]
    first, joins = asks[0], [ask for ask in asks if ask.api in HEARTBEAT_APIS][:1]
    for join in joins if script.focus is None and first.api == "ApiVersions" and first.header < 3 else ():
        if join.header < 3 and join.body["memberEpoch"] == JOIN and join.body.get("memberId"):
            again = with_member_id(dataclasses.replace(join, on=SECOND_ONE), OTHER_MEMBER_ID)
            lost = (first, dataclasses.replace(join, response=None), Close(Direction.TO_CLIENT))
            steps = (*lost, dataclasses.replace(first, on=SECOND_ONE), again, Close(on=SECOND_ONE))
            yield dataclasses.replace(script, steps=steps, counted={SECOND_ONE: FIRST})


@breaks("kip1082/member-ghost")
def fall_silent(script: Script) -> Iterator[Script]:
    """The last heartbeat, by which the member leaves, is missing. The connection goes on without it."""
    beats = [(place, ask) for place, ask in script.asks() if ask.api in HEARTBEAT_APIS]
    _, first = next(script.asks())
    if beats and script.focus is None and beats[-1][1].body["memberEpoch"] == LEAVE:
        place, last = beats[-1]
        client_id = None if first.header == 3 else first.client_id
        yield script.put(place, dataclasses.replace(first, on=last.on, client_id=client_id, after=70.0))


@breaks("kip1082/member-ghost")
def end_at_once_and_join_again(script: Script) -> Iterator[Script]:
    """The client joins under another ID on another connection, and goes on for longer than a session."""
    asks = [ask for _, ask in script.asks()]
    first, joins = asks[0], [ask for ask in asks if ask.api in HEARTBEAT_APIS][:1]
    for join in joins if script.focus is None and first.api == "ApiVersions" and first.header < 3 else ():
        if join.header < 3 and join.body["memberEpoch"] == JOIN and join.body.get("memberId"):
            lost = dataclasses.replace(join, response=None)
            again = with_member_id(dataclasses.replace(join, on=SECOND_ONE), OTHER_MEMBER_ID)
            leave = dataclasses.replace(again, body={**again.body, "memberEpoch": LEAVE}, after=70.0)
            steps = (first, lost, Close(), dataclasses.replace(first, on=SECOND_ONE), again, leave)
            yield dataclasses.replace(script, steps=(*steps, Close(on=SECOND_ONE)))


JOINS = {"rebalanceTimeoutMs": 45_000, "topicPartitions": [], "subscribedTopicNames": ["t"]}
"""What a consumer must say when it joins."""


@breaks("kip1082/member-id-not-assigned")
def assign_nothing(script: Script) -> Iterator[Script]:
    for place, ask in _heartbeats(script):
        if not _needs_member_id(ask):
            yield script.put(place, _without_member(ask, "", 0))
            refused = _without_member(ask, "", INVALID_REQUEST)
            yield script.put(place, dataclasses.replace(refused, body={**refused.body, **JOINS}))


@breaks("kip1082/member-id-refused")
def refuse_the_member_id(script: Script) -> Iterator[Script]:
    for place, ask in _heartbeats(script):
        if ask.api == "StreamsGroupHeartbeat":
            continue
        known = {field.name for field in ask.known.request.struct.fields}
        joins = {name: value for name, value in JOINS.items() if name in known}
        body = {**ask.body, **joins} if ask.body["memberEpoch"] == JOIN else ask.body
        refused = response_body(ask.known, ask.version, INVALID_REQUEST)
        yield script.changed(place, body=body, response=refused)


@breaks("kip1082/member-id-not-used")
def commit_as_another(script: Script) -> Iterator[Script]:
    """The member sends the requests that are no heartbeats under another ID than its heartbeats."""
    for place, ask in script.targets():
        beats = [earlier for earlier in script.before(place) if earlier.api in HEARTBEAT_APIS]
        is_own = ask.body.get("memberId") == MEMBER_ID and ask.api in MEMBER_REQUESTS
        if is_own and any(beat.body["groupId"] == ask.body["groupId"] for beat in beats):
            yield script.changed(place, body={**ask.body, "memberId": OTHER_MEMBER_ID})
