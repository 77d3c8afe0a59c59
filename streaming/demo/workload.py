"""Ordinary traffic, which breaks no rule: of real clients (librdkafka) and of the demo's KIP-1313 client.

The requests of the latter are also those with which offences are planted.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from expectations.conversation.texts import identifier_text
from streaming.probe.client import (
    ATTEMPTS,
    JOIN,
    LEAVE,
    RETRY,
    ConnectionClosedError,
    InstanceClient,
    await_success,
)
from streaming.user_error import UserError

TOPIC = "kipwatch-demo"
MESSAGES = 300
SOFTWARE = {"clientSoftwareName": "kipwatch-demo", "clientSoftwareVersion": "1.0"}
GROUP = "kipwatch-demo-1313"
REBALANCE_TIMEOUT = 45_000

# Seconds that one step may take. The slowest, the first group of a new broker, takes 3 s on idle cores.
_PATIENCE = 120.0


def run_workload(
    bootstrap: str,
    say: Callable[[str], None],
    stop: threading.Event,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Run every client once and report each to `say`. Ends early when `stop` is set.

    `settings` are added to those of each client. Raises UserError if a client fails or takes too long.
    """
    clients = _Clients(bootstrap, stop, settings)
    steps: tuple[tuple[str, Callable[[], None]], ...] = (
        ("an admin client creates a topic and lists the cluster", clients.administer),
        (f"a producer sends {MESSAGES} messages", clients.produce),
        ("a consumer of a classic group reads them", clients.consume_in_classic_group),
        ("a consumer with group.protocol=consumer reads them, leaves and rejoins", clients.leave_and_rejoin),
    )
    try:
        for description, step in steps:
            if stop.is_set():
                return
            say(description)
            step()
    except KafkaException as error:
        raise UserError(
            f"a client failed at {bootstrap}: {error.args[0].str()}; check that the broker runs"
        ) from error


@dataclass(frozen=True, slots=True)
class _Clients:
    """The clients, one for each method, closed when it returns."""

    bootstrap: str
    stop: threading.Event
    settings: Mapping[str, str]

    def administer(self) -> None:
        admin = AdminClient(self._configuration("demo-admin"))
        for created in admin.create_topics([NewTopic(TOPIC, 2)], request_timeout=_PATIENCE).values():
            created.result()
        admin.list_topics(timeout=_PATIENCE)
        admin.describe_cluster(request_timeout=_PATIENCE).result()
        admin.list_consumer_groups(request_timeout=_PATIENCE).result()

    def produce(self) -> None:
        with Producer(self._configuration("demo-producer")) as producer:
            for number in range(MESSAGES):
                producer.produce(TOPIC, key=str(number % 7), value=f"message {number}")
            self._until(lambda: producer.flush(0.2) == 0, "the producer could not deliver its messages")

    def consume_in_classic_group(self) -> None:
        with self._consumer("demo-classic", "classic") as consumer:
            consumer.subscribe([TOPIC])
            self._read(consumer)

    def leave_and_rejoin(self) -> None:
        """Leave and rejoin with one client object, which keeps its member ID as KIP-1082 requires."""
        with self._consumer("demo-consumer", "consumer") as consumer:
            consumer.subscribe([TOPIC])
            self._read(consumer)
            consumer.unsubscribe()
            self._await_assignment(consumer, False)
            consumer.subscribe([TOPIC])
            self._await_assignment(consumer, True)

    def _read(self, consumer: Consumer) -> None:
        """Read all messages of the topic."""
        left = MESSAGES

        def is_read() -> bool:
            nonlocal left
            left -= len(consumer.consume(MESSAGES, timeout=0.2))
            return left <= 0

        self._until(is_read, f"a consumer could not read {MESSAGES} messages")

    def _await_assignment(self, consumer: Consumer, wanted: bool) -> None:
        def is_reached() -> bool:
            consumer.poll(0.1)
            return bool(consumer.assignment()) is wanted

        self._until(is_reached, f"a consumer could not {'join' if wanted else 'leave'} its group")

    def _until(self, done: Callable[[], bool], failure: str) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not self.stop.is_set() and not done():
            if time.monotonic() > deadline:
                raise UserError(f"{failure} in {_PATIENCE:.0f} s; check that {self.bootstrap} runs")

    def _consumer(self, name: str, protocol: str) -> Consumer:
        group = {"group.id": name, "group.protocol": protocol, "auto.offset.reset": "earliest"}
        return Consumer(self._configuration(name) | group)

    def _configuration(self, client_id: str) -> dict[str, str | int]:
        # Errors are raised; librdkafka's own log would mix with the output of the demo.
        own = {"bootstrap.servers": self.bootstrap, "client.id": client_id}
        return {**own, **self.settings, "log_level": 2}


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


def converse(client: InstanceClient) -> None:
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
    if not await_success(lambda: find_coordinator(client)["coordinators"][0]["errorCode"]):
        raise ConnectionClosedError("no coordinator for the demo's group")


def join(client: InstanceClient, member_id: str) -> dict[str, Any]:
    """Join the group, with the same member ID again and again until the coordinator is ready."""
    for _ in range(ATTEMPTS):
        body = heartbeat(client, member_id, JOIN)
        if not body["errorCode"]:
            return body
        time.sleep(RETRY)
    raise ConnectionClosedError(f"the coordinator refuses a join with error {body['errorCode']}")


def member_id_of(client: InstanceClient) -> str:
    """Return a client's proper member ID: its instance ID as text."""
    return identifier_text(client.instance_id)


def new_member_id() -> str:
    """Make the member ID of a client without an instance ID, as KIP-1082 recommends."""
    return secrets.token_urlsafe(16)
