"""The usual requests of the demo's KIP-1313 client, and a conversation that breaks no rule."""

from __future__ import annotations

import secrets
import time
from typing import Any

from expectations.conversation.identifier import identifier_text
from streaming.probe.client import ConnectionClosedError, InstanceClient

SOFTWARE = {"clientSoftwareName": "kipwatch-demo", "clientSoftwareVersion": "1.0"}
GROUP = "kipwatch-demo-1313"
TOPIC = "kipwatch-demo"
JOIN, LEAVE = 0, -1
REBALANCE_TIMEOUT = 45_000
ATTEMPTS = 60
RETRY_SECONDS = 0.25


def api_versions(client: InstanceClient, **how: Any) -> dict[str, Any]:
    """Send ApiVersions, the first request of a conversation."""
    return client.request("ApiVersions", {**SOFTWARE, **how.pop("body", {})}, **how)


def find_coordinator(client: InstanceClient, **how: Any) -> dict[str, Any]:
    """Send FindCoordinator for the group."""
    return client.request("FindCoordinator", {"keyType": 0, "coordinatorKeys": [GROUP]}, **how)


def heartbeat(
    client: InstanceClient, member_id: str, epoch: int, group: str = GROUP, **how: Any
) -> dict[str, Any]:
    """Send a heartbeat that joins, stays in or leaves a consumer group."""
    body: dict[str, Any] = {"groupId": group, "memberId": member_id, "memberEpoch": epoch}
    if epoch == JOIN:
        body |= {
            "rebalanceTimeoutMs": REBALANCE_TIMEOUT,
            "subscribedTopicNames": [TOPIC],
            "topicPartitions": [],
        }
    return client.request("ConsumerGroupHeartbeat", body, **how)


def converse(client: InstanceClient, _settle: float = 0.0) -> None:
    """Hold a conversation that breaks no rule and has all APIs that KIP-1313 changes."""
    api_versions(client)
    client.request("Metadata", {"topics": [{"name": TOPIC}], "allowAutoTopicCreation": False})
    await_coordinator(client)
    member_id = member_id_of(client)
    body = join(client, member_id)
    for _ in range(3):
        body = heartbeat(client, member_id, body["memberEpoch"])
    heartbeat(client, member_id, LEAVE)
    join(client, member_id)
    heartbeat(client, member_id, LEAVE)
    topics = [{"name": TOPIC, "partitions": [{"partitionIndex": 0}]}]
    client.request("OffsetDelete", {"groupId": GROUP, "topics": topics})
    subscription = client.request("GetTelemetrySubscriptions", {})["subscriptionId"]
    client.request("PushTelemetry", {"subscriptionId": subscription, "terminating": True, "metrics": ""})


def await_coordinator(client: InstanceClient) -> None:
    """Wait until the group has a coordinator, which a new broker has to create first."""
    for _ in range(ATTEMPTS):
        if not find_coordinator(client)["coordinators"][0]["errorCode"]:
            return
        time.sleep(RETRY_SECONDS)
    raise ConnectionClosedError("no coordinator for the demo's group")


def join(client: InstanceClient, member_id: str) -> dict[str, Any]:
    """Join the group, with the same member ID again and again until the coordinator is ready."""
    for _ in range(ATTEMPTS):
        body = heartbeat(client, member_id, JOIN)
        if not body["errorCode"]:
            return body
        time.sleep(RETRY_SECONDS)
    raise ConnectionClosedError(f"the coordinator refuses a join with error {body['errorCode']}")


def member_id_of(client: InstanceClient) -> str:
    """Return a client's proper member ID: its instance ID as text."""
    return identifier_text(client.instance_id)


def new_member_id() -> str:
    """Make the member ID of a client without an instance ID, as KIP-1082 recommends."""
    return secrets.token_urlsafe(16)
