"""What is played on the KIP-1313 connections: the requests, and one conversation as it should be."""

from __future__ import annotations

import secrets
import time
from typing import Any

from expectations.conversation.identifier import identifier_text
from streaming.demo.instance_client import SOFTWARE, ConnectionClosedError, InstanceClient

GROUP = "kipwatch-demo-1313"
TOPIC = "kipwatch-demo"
JOIN, LEAVE = 0, -1
REBALANCE_TIMEOUT = 45_000
ATTEMPTS = 60
RETRY_SECONDS = 0.25


def api_versions(client: InstanceClient, **how: Any) -> dict[str, Any]:
    """Open the conversation."""
    return client.ask("ApiVersions", {**SOFTWARE, **how.pop("body", {})}, **how)


def find_coordinator(client: InstanceClient, **how: Any) -> dict[str, Any]:
    """Ask who coordinates the group."""
    return client.ask("FindCoordinator", {"keyType": 0, "coordinatorKeys": [GROUP]}, **how)


def heartbeat(
    client: InstanceClient, member_id: str, epoch: int, group: str = GROUP, **how: Any
) -> dict[str, Any]:
    """Join, go on or leave a consumer group."""
    body: dict[str, Any] = {"groupId": group, "memberId": member_id, "memberEpoch": epoch}
    if epoch == JOIN:
        body |= {
            "rebalanceTimeoutMs": REBALANCE_TIMEOUT,
            "subscribedTopicNames": [TOPIC],
            "topicPartitions": [],
        }
    return client.ask("ConsumerGroupHeartbeat", body, **how)


def converse(client: InstanceClient, _settle: float = 0.0) -> None:
    """One conversation by the book, over the APIs that KIP-1313 touches."""
    api_versions(client)
    client.ask("Metadata", {"topics": [{"name": TOPIC}], "allowAutoTopicCreation": False})
    await_coordinator(client)
    member_id = member_id_of(client)
    answer = join(client, member_id)
    for _ in range(3):
        answer = heartbeat(client, member_id, answer["memberEpoch"])
    heartbeat(client, member_id, LEAVE)
    join(client, member_id)
    heartbeat(client, member_id, LEAVE)
    topics = [{"name": TOPIC, "partitions": [{"partitionIndex": 0}]}]
    client.ask("OffsetDelete", {"groupId": GROUP, "topics": topics})
    subscription = client.ask("GetTelemetrySubscriptions", {})["subscriptionId"]
    client.ask("PushTelemetry", {"subscriptionId": subscription, "terminating": True, "metrics": ""})


def await_coordinator(client: InstanceClient) -> None:
    """Ask until the group has a coordinator; a broker that has just started makes one first."""
    for _ in range(ATTEMPTS):
        if not find_coordinator(client)["coordinators"][0]["errorCode"]:
            return
        time.sleep(RETRY_SECONDS)
    raise ConnectionClosedError("no coordinator for the demo's group")


def join(client: InstanceClient, member_id: str) -> dict[str, Any]:
    """Join the group, and again with the same member ID as long as the coordinator is not ready."""
    for _ in range(ATTEMPTS):
        answer = heartbeat(client, member_id, JOIN)
        if not answer["errorCode"]:
            return answer
        time.sleep(RETRY_SECONDS)
    raise ConnectionClosedError(f"the coordinator answers a join with error {answer['errorCode']}")


def member_id_of(client: InstanceClient) -> str:
    """Give the member ID that a client should use: its instance ID."""
    return identifier_text(client.instance_id)


def new_member_id() -> str:
    """Make a member ID as a client without an instance ID should."""
    return secrets.token_urlsafe(16)
