"""Clean conversations of every kind: nothing in them breaks a rule."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterator
from typing import Any

from decoders.frame.record import Direction
from decoders.schema.registry import Api
from tests.mutations.bodies import (
    CLUSTER_ID,
    HEARTBEAT_APIS,
    INSTANCE_ID,
    JOIN,
    LEAVE,
    MEMBER_ID,
    NODE_ID,
    OTHER_ID,
    OTHER_MEMBER_ID,
    UNSUPPORTED_VERSION,
    known_ranges,
    ranges,
    request_body,
    response_body,
)
from tests.mutations.script import FIRST, SCHEMAS, SECOND_ONE, Ask, Close, Script, Send, Step


def ask(name: str, version: int, *, on: str = FIRST, **body: Any) -> Ask:
    """A request with its response. On header v3 it carries the instance ID and no client ID."""
    api = api_named(name)
    exchange = Ask(name, version, request_body(api, version, **body), response_body(api, version), on=on)
    if exchange.header == 3:
        return dataclasses.replace(exchange, client_id=None, instance_id=INSTANCE_ID)
    return exchange


def api_named(name: str) -> Api:
    """An API of the schemas."""
    api = SCHEMAS.api_named(name)
    assert api is not None
    return api


def newest(name: str) -> int:
    """The version of an API that KIP-1313 adds, on header v3."""
    return api_named(name).versions.highest


def new(name: str, *, on: str = FIRST, **body: Any) -> Ask:
    """A request on header v3."""
    return ask(name, newest(name), on=on, **body)


def negotiate(version: int, *, on: str = FIRST, **body: Any) -> Ask:
    """ApiVersions as a connection's first request: it names the client on any header."""
    return dataclasses.replace(ask("ApiVersions", version, on=on, **body), client_id="app")


def script(name: str, *steps: Step) -> Script:
    """A script whose ApiVersions responses list all APIs that it uses, and that the client closes."""
    asked = {step.api for step in steps if isinstance(step, Ask)}
    connections = dict.fromkeys(step.on for step in steps)
    closed = {step.on for step in steps if isinstance(step, Close)}
    closing = tuple(Close(on=on) for on in connections if on not in closed)
    return Script(name, steps + closing).each(lambda step: _advertising(step, asked))


def _advertising(step: Ask, asked: set[str]) -> Ask:
    if step.api != "ApiVersions" or step.response is None or step.response.get("errorCode"):
        return step
    return dataclasses.replace(step, response={**step.response, "apiKeys": known_ranges(asked)})


def _token(text: bytes) -> tuple[Send, Send]:
    """A raw SASL token and its empty response."""
    sent = struct.pack(">i", len(text)) + text
    return Send(Direction.TO_BROKER, sent), Send(Direction.TO_CLIENT, bytes(4))


def _plain() -> Script:
    released = ("Metadata", "FindCoordinator", "ListOffsets", "Fetch", "JoinGroup", "SyncGroup", "Heartbeat")
    asked = [ask(name, newest(name) - 1) for name in released]
    produce = ask("Produce", newest("Produce") - 1)
    without_response = dataclasses.replace(ask("Produce", newest("Produce") - 1, acks=0), response=None)
    leave = ask("LeaveGroup", newest("LeaveGroup") - 1)
    return script("plain", negotiate(4), *asked, produce, without_response, produce, leave)


def _renewed() -> Script:
    names = ("Metadata", "FindCoordinator", "Produce", "Fetch", "OffsetDelete", "DescribeCluster")
    return script("header v3", negotiate(6), *map(new, names))


def _without_negotiation() -> Script:
    first = dataclasses.replace(new("Metadata"), client_id="app")
    return script("header v3 without ApiVersions", first, new("FindCoordinator"))


def _mixed() -> Script:
    """The first request is on an older header, so nothing binds the connection to an ID."""
    older = [ask(name, newest(name) - 1) for name in ("FindCoordinator", "Fetch", "OffsetDelete")]
    return script("older headers mixed in", negotiate(4), new("Metadata"), *older, new("Fetch"))


def _without_id() -> Script:
    """Header v3, but its ID comes later than the first request, which was on an older header."""
    return script("an ID that comes later", negotiate(4), new("Metadata"), new("FindCoordinator"))


def _sasl() -> Iterator[Script]:
    authenticate = ask("SaslAuthenticate", 2)
    old = [ask("ApiVersions", 0), ask("SaslHandshake", 1), authenticate, authenticate]
    again = [ask("SaslHandshake", 1), authenticate]
    metadata = ask("Metadata", 13)
    yield script("SASL v0", ask("SaslHandshake", 0), *_token(b"\0user\0secret"), negotiate(4), metadata)
    yield script("SASL v1", *old, negotiate(5), metadata)
    yield script("re-authentication", *old, negotiate(5), metadata, *again, metadata)
    fresh = [ask("SaslHandshake", 1), new("SaslAuthenticate")]
    yield script("SASL first, header v3", *fresh, new("ApiVersions"), new("Metadata"))
    yield script(
        "re-authentication, header v3", negotiate(6), *fresh, new("Metadata"), *fresh, new("Metadata")
    )


def membership(name: str, version: int, member_id: str = MEMBER_ID, *, on: str = FIRST) -> list[Ask]:
    """Join, heartbeat, leave, join again, leave: one member ID throughout."""
    epochs = (JOIN, 1, 1, LEAVE, JOIN, 1, LEAVE)
    beats = [ask(name, version, on=on, memberId=member_id, memberEpoch=epoch) for epoch in epochs]
    return [
        dataclasses.replace(beat, response={**(beat.response or {}), "memberId": member_id}) for beat in beats
    ]


def _groups() -> Iterator[Script]:
    for name in HEARTBEAT_APIS:
        for version in versions_of(api_named(name)):
            first = 6 if version == newest(name) else 4
            yield script(f"{name} v{version}", negotiate(first), *membership(name, version))


def _members_at_work() -> Iterator[Script]:
    """Members that commit and fetch between their heartbeats."""
    consumer = membership("ConsumerGroupHeartbeat", 1)
    commits = [ask("OffsetCommit", version) for version in versions_of(api_named("OffsetCommit"))[:-1]]
    commits.append(ask("TxnOffsetCommit", 5))
    yield script("a consumer that commits", negotiate(4), *consumer[:2], *commits, *consumer[2:])
    sharer = membership("ShareGroupHeartbeat", 1)
    fetches = [ask("ShareFetch", 1), ask("ShareAcknowledge", 1)]
    yield script("a share consumer at work", negotiate(4), *sharer[:2], *fetches, *sharer[2:])


def _telemetry() -> Iterator[Script]:
    assigned = ask("GetTelemetrySubscriptions", 0)
    push = ask("PushTelemetry", 0, clientInstanceId=MEMBER_ID)
    echoed = ask("GetTelemetrySubscriptions", 0, clientInstanceId=MEMBER_ID)
    yield script("telemetry v0", negotiate(4), assigned, push, echoed)
    fresh = [new("GetTelemetrySubscriptions"), new("PushTelemetry")]
    yield script("telemetry v1", negotiate(6), *fresh)
    yield script("telemetry v0 and v1", negotiate(4), *fresh, echoed, push)


def _fallback() -> Iterator[Script]:
    for version in (3, 4, 5):
        refused = dataclasses.replace(
            negotiate(version),
            response={"errorCode": UNSUPPORTED_VERSION, "apiKeys": ranges((18, 0, version - 1))},
            response_version=0,
        )
        yield script(f"fallback from v{version}", refused, negotiate(version - 1), ask("Metadata", 13))


def _overreached() -> Iterator[Script]:
    """A client that knows the broker's range and asks for more, which is allowed for ApiVersions."""
    for version in (3, 4, 5):
        listed = ranges((18, 0, version - 1))
        known = dataclasses.replace(negotiate(version - 1), response={"errorCode": 0, "apiKeys": listed})
        refused = {"errorCode": UNSUPPORTED_VERSION, "apiKeys": listed}
        more = dataclasses.replace(negotiate(version), response=refused, response_version=0)
        yield Script(f"more than advertised, v{version}", (known, more, Close()))


def _identified() -> Script:
    ids: dict[str, Any] = {"clusterId": CLUSTER_ID, "nodeId": NODE_ID}
    bootstrap: list[Step] = [negotiate(5), ask("Metadata", 13), Close()]
    known = [negotiate(5, on=SECOND_ONE, **ids), ask("Metadata", 13, on=SECOND_ONE)]
    return script("cluster and node named", *bootstrap, *known)


def _newly_identified() -> Script:
    ids: dict[str, Any] = {"clusterId": CLUSTER_ID, "nodeId": NODE_ID}
    return script("cluster and node named, header v3", negotiate(6, **ids), new("Metadata"))


def _reconnected() -> Script:
    beats = membership("ConsumerGroupHeartbeat", 2)
    again = membership("ConsumerGroupHeartbeat", 2, on=SECOND_ONE)
    return script("a reconnect", negotiate(6), *beats, Close(), negotiate(6, on=SECOND_ONE), *again)


def _beside() -> Script:
    """One client instance with two connections, as clients with a coordinator have."""
    known = negotiate(6, on=SECOND_ONE, clusterId=CLUSTER_ID, nodeId=NODE_ID)
    steps = [negotiate(6), new("Metadata"), known, new("Fetch", on=SECOND_ONE)]
    return script("two connections of one client", *steps, new("Metadata"), new("Fetch", on=SECOND_ONE))


def _two_members() -> Iterator[Script]:
    """Two members of one group, heartbeating in turns."""
    for name in HEARTBEAT_APIS:
        version = api_named(name).versions.lowest
        ones = membership(name, version)[:3]
        others = membership(name, version, OTHER_MEMBER_ID, on=SECOND_ONE)[:3]
        turns = [beat for pair in zip(ones, others, strict=True) for beat in pair]
        yield script(
            f"two members, {name}", negotiate(4), negotiate(4, on=SECOND_ONE), *turns, *ones[1:], ones[1]
        )


def _two_instances() -> Script:
    steps = [new("Metadata"), new("Metadata", on=SECOND_ONE), new("Fetch"), new("Fetch", on=SECOND_ONE)]
    both = script("two client instances", negotiate(6), negotiate(6, on=SECOND_ONE), *steps)
    return both.each(
        lambda step: dataclasses.replace(step, instance_id=OTHER_ID) if step.on == SECOND_ONE else step
    )


def versions_of(api: Api) -> range:
    return range(api.versions.lowest, api.versions.highest + 1)


KINDS = (
    _plain(),
    _renewed(),
    _without_negotiation(),
    _mixed(),
    _without_id(),
    *_sasl(),
    *_groups(),
    *_members_at_work(),
    *_telemetry(),
    *_fallback(),
    *_overreached(),
    _identified(),
    _newly_identified(),
    _reconnected(),
    _beside(),
    *_two_members(),
    _two_instances(),
)
"""Conversations of every kind; `sweeps.py` adds every API version."""
