"""The plays of a probe: what is asked of a broker, each on a connection of its own.

A play asks only for what the broker advertises, and sends what its duty needs and next to nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from decoders.protocol import NAMES_BROKER_FROM, NAMES_SOFTWARE_FROM, NO_ERROR
from expectations.conversation.texts import identifier_text
from streaming.probe.client import (
    GROUP,
    JOIN,
    LEAVE,
    SOFTWARE,
    await_success,
    beat,
    find_coordinator,
    negotiate,
    send_null,
)
from streaming.probe.connection import NotOfferedError, ProbingClient

Play = Callable[[ProbingClient], object]
"""Asks on one connection. Raises ConnectionClosedError, or NotOfferedError if there is nothing to ask."""

HEADER_V3: Final = 6
"""The first version of ApiVersions on request header v3."""
NO_NODE_HAS: Final = 2_147_483_646
"""A node ID that no broker has."""
UNKNOWN_API: Final = 999
EDGES: Final[Mapping[str, Mapping[str, Any]]] = {
    "ApiVersions": SOFTWARE,
    "ConsumerGroupDescribe": {},
    "DescribeCluster": {},
    "DescribeConfigs": {},
    "DescribeGroups": {},
    "DescribeProducers": {},
    "DescribeTransactions": {},
    "GetTelemetrySubscriptions": {},
    "ListConfigResources": {},
    "ListGroups": {},
    "ListOffsets": {"replicaId": -1},
    "Metadata": {"topics": [], "allowAutoTopicCreation": False},
    "OffsetFetch": {"groupId": GROUP, "groups": [{"groupId": GROUP}]},
    "OffsetForLeaderEpoch": {"replicaId": -2},
    "ShareGroupDescribe": {},
}
"""APIs that change nothing, each with a body that asks for next to nothing, in any version."""
_FIRST_THAT_ASKS_FOR_LITTLE: Final = {"Metadata": 4, "ListConfigResources": 1}
"""Older versions list everything, or create a topic."""


def ask_versions(client: ProbingClient, version: int, **claims: Any) -> None:
    """Send ApiVersions in a version that the broker lists, with these fields of the body."""
    negotiate(client, client.need("ApiVersions", version), **claims)


def ask_before_and_after_login(client: ProbingClient) -> None:
    """Ask for the versions, log in, and ask again."""
    negotiate(client, 0)
    client.log_in()
    negotiate(client, 0)


def ask_the_version_above(client: ProbingClient) -> None:
    """Ask for the versions in the first version that the broker lacks, if it is older than header v3."""
    _, highest = client.target.ranges.get("ApiVersions", (0, HEADER_V3))
    if highest + 1 >= HEADER_V3:
        raise NotOfferedError("a version of ApiVersions that it lacks")
    negotiate(client, highest + 1)


def ask_unknown_version(client: ProbingClient, version: int) -> None:
    """Send ApiVersions in a version that no schema has."""
    frame = client.frame("ApiVersions", NAMES_SOFTWARE_FROM, SOFTWARE)
    client.exchange(frame[:2] + version.to_bytes(2, signed=True) + frame[4:], "ApiVersions", version)


def ask_edge(client: ProbingClient, api: str, *, newest: bool) -> None:
    """Send one of EDGES in the newest or the oldest version that the broker lists and the schemas have."""
    lowest, highest = client.target.ranges.get(api, (0, -1))
    known = client.target.schemas.api_named(api)
    if known is None:
        raise NotOfferedError(api)
    lowest = max(lowest, known.versions.lowest, _FIRST_THAT_ASKS_FOR_LITTLE.get(api, 0))
    version = client.need(api, min(highest, known.versions.highest) if newest else lowest)
    fields = {field.name for field in known.request.struct.fields if version in field.versions}
    if api != "ApiVersions":
        negotiate(client, 0)
    body = {name: value for name, value in EDGES[api].items() if name in fields}
    client.request(api, body, version=version)


def ask_unknown_api(client: ProbingClient) -> None:
    """Send a Metadata request under the key of no API."""
    negotiate(client, 0)
    client.may_close = True
    frame = client.frame("Metadata", 9, {})
    client.exchange(UNKNOWN_API.to_bytes(2) + frame[2:], "Metadata", 9)


def meet_named_broker(client: ProbingClient, **wrong: Any) -> None:
    """Name the cluster and node that the broker says it is, apart from what `wrong` has (KIP-1242)."""
    client.need("ApiVersions", NAMES_BROKER_FROM)
    told = client.request("Metadata", {"topics": []}, version=client.need("Metadata", 12))
    brokers = told.get("brokers", ())
    nodes = [broker for broker in brokers if _is_at(broker, client)] or brokers
    if not told.get("clusterId") or (len(nodes) != 1 and "nodeId" not in wrong):
        raise NotOfferedError("a Metadata response that tells its cluster, and which node it is")
    right = {"clusterId": told["clusterId"], "nodeId": nodes[0]["nodeId"] if nodes else NO_NODE_HAS}
    met = negotiate(client, **(right | wrong))
    if not met.get("errorCode"):
        client.request("Metadata", {"topics": []}, version=12)


def _is_at(broker: Mapping[str, Any], client: ProbingClient) -> bool:
    """Whether a listed broker has the address that the probe was given, or the one that it has reached."""
    given, port = client.target.address
    return broker["port"] == port and broker["host"] in (given, client.server)


def beat_as(client: ProbingClient, api: str, version: int, member_id: str, epoch: int) -> None:
    """Send one heartbeat, if the broker lists its version."""
    beat(client, member_id, epoch, api, client.need(api, version))


def give_null(client: ProbingClient, api: str, version: int, text: str, body: dict[str, Any]) -> None:
    """Send a request with null in the place of a text of its body; the broker may close the connection."""
    client.need(api, version)
    negotiate(client, 0)
    client.may_close = True
    send_null(client, api, version, text, **body)


def join_without_id(client: ProbingClient) -> None:
    """Join a group without a member ID, by version 0, and leave it under the ID that the broker gives."""
    version = client.need("ConsumerGroupHeartbeat", 0)
    _await_coordinator(client)
    joined = beat(client, "", JOIN, version=version)
    if joined.get("memberId"):
        beat(client, joined["memberId"], LEAVE, version=version)


def live_as_member(client: ProbingClient, member_id: str) -> None:
    """Join, go on and leave under one member ID."""
    client.need("ConsumerGroupHeartbeat", 1)
    negotiate(client, 0)
    _await_coordinator(client)
    joined = beat(client, member_id, JOIN)
    for epoch in (joined.get("memberEpoch", 1), LEAVE):
        beat(client, member_id, epoch)


def _await_coordinator(client: ProbingClient) -> None:
    """Let the broker make the topic in which it keeps groups, and wait until there is a coordinator.

    A response that lists none, or that cannot be read, ends the wait: the heartbeats show what follows.
    """
    version = client.need("FindCoordinator", 4)

    def ask() -> int:
        found = find_coordinator(client, version).get("coordinators")
        return int(found[0]["errorCode"]) if found else NO_ERROR

    await_success(ask)


def subscribe_to_telemetry(client: ProbingClient, **given: str) -> None:
    """Ask for telemetry subscriptions, without an instance ID or with a given one (KIP-714)."""
    version = client.need("GetTelemetrySubscriptions", 0)
    client.request("GetTelemetrySubscriptions", given, version=version)


def begin_with_header_v3(client: ProbingClient) -> None:
    """Negotiate and go on with request header v3, as a client of KIP-1313 does."""
    ask_versions(client, HEADER_V3)
    client.request("Metadata", {"topics": []})


def change_instance_id(client: ProbingClient, instance_id: bytes) -> None:
    """Leave a group under another instance ID than that of the connection."""
    ask_versions(client, HEADER_V3)
    body = {"groupId": GROUP, "memberId": identifier_text(client.instance_id), "memberEpoch": LEAVE}
    client.request("ConsumerGroupHeartbeat", body, instance_id=instance_id)


def shake_hands_after_id(client: ProbingClient) -> None:
    """Send SaslHandshake, whose header has no instance ID, on a connection that has one."""
    version = client.need("SaslHandshake", 1)
    ask_versions(client, HEADER_V3)
    client.request("SaslHandshake", {"mechanism": "PLAIN"}, version=version)


def ask_three_at_once(client: ProbingClient) -> None:
    """Send three requests before the first response, and wait for a fourth response, which is not due."""
    for version in (0, 1, 2):
        client.send(client.frame("ApiVersions", version, {}))
    for _ in range(3):
        client.receive()
    client.linger()


def send_bytes(client: ProbingClient, data: bytes) -> None:
    """Send bytes that are no request, which the broker may close upon."""
    negotiate(client, 0)
    client.may_close = True
    client.send_bytes(data)
    client.receive()
