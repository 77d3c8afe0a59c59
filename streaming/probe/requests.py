"""Requests that are asked of a broker under test, as a client on today's headers says them."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from streaming.probe.client import ConnectionClosedError, InstanceClient

NEWEST_API_VERSIONS = 5
SOFTWARE = {"clientSoftwareName": "kipwatch-probe", "clientSoftwareVersion": "1"}
TOPIC = GROUP = "kipwatch-probe"
JOIN, LEAVE = 0, -1
ATTEMPTS, RETRY = 40, 0.5
"""How often to ask for a coordinator, and how many seconds lie between."""
HEARTBEATS = (
    ("ConsumerGroupHeartbeat", 1),
    ("ShareGroupHeartbeat", 1),
    ("StreamsGroupHeartbeat", 0),
    ("StreamsGroupHeartbeat", 1),
)
"""The heartbeats in which a client must name its member."""


def negotiate(client: InstanceClient, version: int = NEWEST_API_VERSIONS, **claims: Any) -> dict[str, Any]:
    software = SOFTWARE if version >= 3 else {}
    return client.request("ApiVersions", software | claims, version=version)


def send(client: InstanceClient, api: str, version: int, **body: Any) -> None:
    """Ask something upon which the broker may close."""
    with suppress(ConnectionClosedError):
        client.request(api, body, version=version)


def send_null(client: InstanceClient, api: str, version: int, text: str, **body: Any) -> None:
    """Ask something with a null in the place of a compact string that must not be null."""
    frame = client.frame(api, version, body)
    with suppress(ConnectionClosedError):
        client.exchange(frame.replace(bytes([len(text) + 1]) + text.encode(), b"\0"), api, version)


def beat(
    client: InstanceClient, member_id: str, epoch: int, api: str = "ConsumerGroupHeartbeat", version: int = 1
) -> dict[str, Any]:
    """Join, go on or leave a group of the API's kind."""
    return client.request(api, heartbeat_of(member_id, epoch, api), version=version)


def heartbeat_of(member_id: str, epoch: int, api: str) -> dict[str, Any]:
    """Return the body of a heartbeat."""
    body: dict[str, Any] = {"groupId": f"{GROUP}-{api}", "memberId": member_id, "memberEpoch": epoch}
    return body | _JOINS[api] if epoch == JOIN else body


_JOINS: dict[str, dict[str, Any]] = {
    "ConsumerGroupHeartbeat": {
        "rebalanceTimeoutMs": 45_000,
        "subscribedTopicNames": [TOPIC],
        "topicPartitions": [],
    },
    "ShareGroupHeartbeat": {"subscribedTopicNames": [TOPIC]},
    "StreamsGroupHeartbeat": {
        "rebalanceTimeoutMs": 45_000,
        "topology": {"epoch": 0, "subtopologies": []},
        "activeTasks": [],
        "standbyTasks": [],
        "warmupTasks": [],
        "processId": GROUP,
        "clientTags": [],
    },
}


def find_coordinator(client: InstanceClient, version: int) -> dict[str, Any]:
    """Ask who coordinates the group."""
    return client.request("FindCoordinator", {"keyType": 0, "coordinatorKeys": [GROUP]}, version=version)


def await_success(ask: Callable[[], int]) -> bool:
    """Ask until there is no error; a coordinator takes its time when it is first asked for."""
    for _ in range(ATTEMPTS):
        if not ask():
            return True
        time.sleep(RETRY)
    return False
