"""What is played on the KIP-1313 connections: one conversation as it should be, and planted offences."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from streaming.demo.instance_client import SOFTWARE, ConnectionClosedError, InstanceClient, new_instance_id

GROUP = "kipwatch-demo-1313"
TOPIC = "kipwatch-demo"
JOIN, LEAVE = 0, -1
REBALANCE_TIMEOUT = 45_000
ZERO_ID = bytes(16)
ATTEMPTS = 60
RETRY_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Planted:
    """One connection's offences: the rules that must be found there, and how it is played.

    `play` is given the client and `settle`: how long to wait, in seconds, until an answer has surely
    been read. `expects_close` tells that the broker ends the connection instead of answering.
    """

    name: str
    rules: frozenset[str]
    play: Callable[[InstanceClient, float], None]
    expects_close: bool = False


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
    member_id = new_member_id()
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


def new_member_id() -> str:
    """Make a member ID as a client should."""
    return secrets.token_urlsafe(16)


def _change_instance_id(client: InstanceClient, _settle: float) -> None:
    api_versions(client)
    heartbeat(client, new_member_id(), LEAVE, instance_id=new_instance_id())


def _drop_instance_id(client: InstanceClient, _settle: float) -> None:
    api_versions(client)
    heartbeat(client, new_member_id(), LEAVE, instance_id=ZERO_ID)


def _begin_with_zero(client: InstanceClient, _settle: float) -> None:
    api_versions(client, instance_id=ZERO_ID)
    find_coordinator(client, instance_id=ZERO_ID)


def _repeat_client_id(client: InstanceClient, _settle: float) -> None:
    api_versions(client)
    find_coordinator(client, client_id="repeated")


def _hide_client_id(client: InstanceClient, _settle: float) -> None:
    api_versions(client, client_id=None)
    find_coordinator(client, client_id=None)


def _empty_member_id(client: InstanceClient, _settle: float) -> None:
    api_versions(client)
    heartbeat(client, "", JOIN)


def _change_member_id(client: InstanceClient, _settle: float) -> None:
    api_versions(client)
    for _ in range(2):
        member_id = new_member_id()
        heartbeat(client, member_id, JOIN, group=f"{GROUP}-changed")
        heartbeat(client, member_id, LEAVE, group=f"{GROUP}-changed")


def _leave_range(client: InstanceClient, settle: float) -> None:
    api_versions(client)
    time.sleep(settle)
    # Its newest released version is unstable, so the broker does not advertise it.
    client.ask("InitProducerId", {"transactionalId": None, "transactionTimeoutMs": 1000})


def _malform_software_name(client: InstanceClient, _settle: float) -> None:
    api_versions(client, body={"clientSoftwareName": "kipwatch demo!"})


def _null_member_id(client: InstanceClient, _settle: float) -> None:
    api_versions(client, version=5)
    member_id = new_member_id()
    body = {"groupId": GROUP, "memberId": member_id, "memberEpoch": LEAVE}
    frame = client.frame("ConsumerGroupHeartbeat", 1, body)
    # A compact string is its length plus one and its bytes; a null one is a single zero.
    text = bytes([len(member_id) + 1]) + member_id.encode()
    client.exchange(frame.replace(text, b"\0"), "ConsumerGroupHeartbeat", 1)


PLANTED = (
    Planted("instance ID changed", frozenset({"kip1313/instance-id-changed"}), _change_instance_id),
    Planted("instance ID missing", frozenset({"kip1313/instance-id-missing"}), _drop_instance_id),
    Planted("instance ID zero", frozenset({"kip1313/instance-id-zero"}), _begin_with_zero),
    Planted("client ID repeated", frozenset({"kip1313/client-id-repeated"}), _repeat_client_id),
    Planted("client ID never given", frozenset({"kip1313/client-id-missing-first"}), _hide_client_id),
    Planted("empty member ID", frozenset({"kip1082/member-id-empty"}), _empty_member_id),
    Planted("member ID changed", frozenset({"kip1082/member-id-changed"}), _change_member_id),
    Planted("version out of range", frozenset({"kip35/version-out-of-range"}), _leave_range, True),
    Planted("software name malformed", frozenset({"kip511/software-name-malformed"}), _malform_software_name),
    Planted(
        "null member ID",
        frozenset({"wire/malformed-request", "kip1082/member-id-empty"}),
        _null_member_id,
        True,
    ),
)
"""Every offence that the demo plants, each on a connection of its own."""


def play(planted: Planted, client: InstanceClient, settle: float) -> None:
    """Play one planted offence. Raises ConnectionClosedError when the broker should have answered."""
    try:
        planted.play(client, settle)
    except ConnectionClosedError:
        if not planted.expects_close:
            raise
