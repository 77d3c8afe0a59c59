"""KIP-1313's own scenarios: old and new clients at old and new brokers, SASL first, and clients that mix."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest

from decoders.schema.registry import default_schemas
from expectations.conversation.texts import identifier_text
from expectations.identity.known_ranges import ENOUGH_CLOSES
from streaming.broker.ports import HOST
from streaming.demo.front import Front
from streaming.probe.client import GROUP, TOPIC, InstanceClient, find_coordinator, negotiate
from tests.scenarios.client_requests import authenticate
from tests.scenarios.lifted_client import LiftedClients
from tests.scenarios.new_clients import run_new_clients
from tests.scenarios.stage import Stage, Watch, asked, found

pytestmark = pytest.mark.jvm

NEW, OLD = 6, 5
"""ApiVersions on header v3, and on header v2."""
ZERO = "A" * 22
PAUSE = 1.1
"""Seconds that a broker wants between two authentications."""


def _subscribe(client: InstanceClient, given: str) -> str:
    asked = {"clientInstanceId": given}
    returned: str = client.request("GetTelemetrySubscriptions", asked, version=0)["clientInstanceId"]
    return returned


@pytest.mark.parametrize("is_new", [False, True], ids=["old broker", "new broker"])
def test_an_old_client_is_assigned_its_id(stage: Stage, is_new: bool) -> None:
    with stage.watch(stage.new if is_new else stage.old) as watch, watch.client() as client:
        negotiate(client)
        assigned = _subscribe(client, ZERO)
        assert assigned != ZERO
        client.request("PushTelemetry", {"clientInstanceId": assigned, "metrics": ""}, version=0)
    assert found(stage.examine(watch)) == set()


def test_a_new_client_at_an_old_broker_gives_its_id_in_the_body(stage: Stage) -> None:
    with stage.watch(stage.old) as watch, watch.client() as client:
        negotiate(client)
        own = identifier_text(client.instance_id)
        assert _subscribe(client, own) == own
        client.request("PushTelemetry", {"clientInstanceId": own, "metrics": ""}, version=0)
    assert found(stage.examine(watch)) == set()
    assert found(stage.examine(watch, readings=("kip1313=text",))) == {"kip1313/telemetry-id-not-echoed"}


def test_a_new_client_at_a_new_broker_gives_its_id_in_the_header(stage: Stage) -> None:
    with stage.watch(stage.new) as watch, watch.client() as client:
        negotiate(client, NEW)
        client.request("GetTelemetrySubscriptions", {})
        client.request("PushTelemetry", {"metrics": ""})
    assert found(stage.examine(watch)) == set()


def test_a_new_client_that_begins_with_header_v3_is_cut_off_by_an_old_broker(stage: Stage) -> None:
    with stage.watch(stage.old) as watch:
        with watch.client() as client:
            negotiate(client)
        for _ in range(ENOUGH_CLOSES):
            with watch.client() as client, pytest.raises(ConnectionError):
                negotiate(client, NEW)
    assert found(stage.examine(watch)) == {"kip1313/header-v3-before-negotiation"}


def test_sasl_comes_first_and_again(stage: Stage) -> None:
    with (
        Front(default_schemas(), (HOST, stage.broker.secured_port)) as front,
        stage.watch(front.address) as watch,
        watch.client() as client,
    ):
        authenticate(client, client.newest("SaslAuthenticate"))
        negotiate(client, NEW)
        client.request("Metadata", {})
        time.sleep(PAUSE)
        authenticate(client, client.newest("SaslAuthenticate"))
        client.request("Metadata", {})
    assert found(stage.examine(watch)) == set()


def test_offset_delete_goes_from_header_1_to_header_3(stage: Stage) -> None:
    topics = [{"name": TOPIC, "partitions": [{"partitionIndex": 0}]}]
    with stage.watch(stage.new) as watch:
        with watch.client() as new:
            negotiate(new, NEW)
            new.request("OffsetDelete", {"groupId": GROUP, "topics": topics}, version=1)
        with watch.client() as old:
            negotiate(old, OLD)
            old.request("OffsetDelete", {"groupId": GROUP, "topics": topics}, version=0)
    assert found(stage.examine(watch)) == set()


def test_older_headers_are_refused_on_a_connection_that_began_with_an_id(stage: Stage) -> None:
    with stage.watch(stage.new) as watch, watch.client() as client:
        negotiate(client, NEW)
        body = {"groupId": GROUP, "memberId": identifier_text(client.instance_id), "memberEpoch": -1}
        assert client.request("ConsumerGroupHeartbeat", body, version=1)["errorCode"] == 42
        assert client.request("ConsumerGroupHeartbeat", body, version=2)["errorCode"] != 42
    assert found(stage.examine(watch)) == {"kip1313/instance-id-missing"}


def test_older_headers_may_be_mixed_in_where_the_first_request_gave_no_id(stage: Stage) -> None:
    with stage.watch(stage.new) as watch, watch.client() as client:
        negotiate(client, OLD)
        find_coordinator(client, 7)
        find_coordinator(client, 6)
        client.request("Metadata", {})
        client.request("Metadata", {}, version=9)
    assert found(stage.examine(watch)) == set()


@pytest.mark.e2e
def test_a_real_client_that_is_lifted_breaks_nothing(stage: Stage) -> None:
    """Kafka's own clients 4.4.0, lifted. Their member ID is their own, since they know of no instance ID."""
    upstream, told = stage.broker.lifted_port, stage.broker.lifted_told
    examination = stage.examine(lifted(stage, upstream, told))
    assert found(examination) == {"kip1313/member-id-differs"}
    conforming = Counter({coverage.rule: coverage.conforms for coverage in examination.coverage})
    assert conforming["kip1313/instance-id-missing"] > 20
    assert conforming["kip1313/client-id-repeated"] > 20


@pytest.mark.e2e
def test_a_real_client_that_is_lifted_authenticates_first_and_again(stage: Stage) -> None:
    """Between its messages it has to authenticate anew, which it does under the same instance ID."""
    upstream, told = stage.broker.secured_port, stage.broker.secured_told
    watch = lifted(stage, upstream, told, mechanism="PLAIN", pause=300)
    examination = stage.examine(watch)
    assert found(examination) == {"kip1313/member-id-differs"}
    versions, requests = asked(examination, "SaslAuthenticate")
    assert versions == {3}
    assert requests > examination.connections
    conforming = Counter({coverage.rule: coverage.conforms for coverage in examination.coverage})
    assert conforming["kip1313/instance-id-changed"] > 20


def lifted(stage: Stage, upstream: int, told: int, **how: Any) -> Watch:
    """Record Kafka's clients as new ones, at the broker's listener, which told clients of another port."""
    with (
        Front(default_schemas(), (HOST, upstream)) as front,
        stage.watch(front.address) as watch,
        LiftedClients(default_schemas(), told, watch.address),
    ):
        run_new_clients(told, **how)
    return watch
