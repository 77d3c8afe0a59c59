"""Each provocation, with a client that does its duty and with one that does not."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple, Protocol

import pytest

from decoders.codec.response import read_response, write_response
from expectations.conversation.texts import identifier_text
from expectations.report.coverage import Coverage
from expectations.rules.base.rule import Role
from expectations.rules.catalogue import RULES
from streaming.check.examination import Examination, examine
from streaming.probe.client import (
    GROUP,
    JOIN,
    LEAVE,
    ConnectionClosedError,
    InstanceClient,
    beat,
    negotiate,
    new_instance_id,
    send,
)
from streaming.probe.connection import Login, authenticate
from streaming.record import relay
from streaming.record.provocations import ANOTHER_CLUSTER, PROVOCATIONS, Provocation
from streaming.record.relay import Relays
from streaming.record.rewriting import ForwardedRequest
from tests.streaming.probe.model_broker import CLUSTER, HEADER_V3, NODE, SCHEMAS, ModelBroker

MEMBER, OTHER = "kcjqdTIoQMuWKqjv0mmNEw", "t1DVi8ZtQ7ipVPBY2tX9gg"
READ = 6_000_000_000


class Connect(Protocol):
    """Opens a connection of the client through the relay; what it has read by then counts as read."""

    def __call__(self, broker: int = 0) -> InstanceClient:
        """Connect to the first broker, or to the second one, 1."""


Play = Callable[[Connect], None]


def ask_in_range(connect: Connect) -> None:
    """Ask by version 2, which is in the range, or by version 0 where there is none."""
    for version, apis in ((0, []), (2, [18])):
        with connect() as client:
            refusal = negotiate(client, 4)
            assert (refusal["errorCode"], [entry["apiKey"] for entry in refusal["apiKeys"]]) == (35, apis)
            newest = {entry["apiKey"]: entry["maxVersion"] for entry in negotiate(client, version)["apiKeys"]}
            assert newest[18] == 2
            settle()
            client.request("Metadata", {}, version=newest[3])


def insist(connect: Connect) -> None:
    for _ in range(4):
        with connect() as client:
            negotiate(client, 4)
        with connect() as client:
            negotiate(client, 4)
            settle()
            negotiate(client, 4)


def leave_the_refused(connect: Connect) -> None:
    for _ in range(2):
        with connect() as client:
            if not negotiate(client, 4)["errorCode"]:
                client.request("Metadata", {}, version=12)


def use_the_refused(connect: Connect) -> None:
    with connect() as client:
        negotiate(client, 4)
        settle()
        client.request("Metadata", {}, version=12)


def _listed(client: InstanceClient) -> dict[int, int]:
    entries = negotiate(client, 3)["apiKeys"]
    settle()
    return {entry["apiKey"]: entry["maxVersion"] for entry in entries}


def settle() -> None:
    """Advance the relay's clock."""
    _CLOCK.ahead += READ


_CLOCK = SimpleNamespace(ahead=0)


def go_by_the_list(connect: Connect) -> None:
    for broker in (0, 0, 1):
        with connect(broker) as client:
            client.request("Metadata", {}, version=_listed(client)[3])


def go_beyond_the_list(connect: Connect) -> None:
    """Whoever lists less serves less, and closes."""
    closed = 0
    for _ in range(2):
        with connect() as client:
            _listed(client)
            try:
                client.request("Metadata", {})
            except ConnectionClosedError:
                closed += 1
    assert closed


def do_without(connect: Connect) -> None:
    with connect() as client:
        assert client.key("DescribeConfigs") not in _listed(client)
        client.request("Metadata", {}, version=12)


def use_the_withdrawn(connect: Connect) -> None:
    with connect() as client:
        _listed(client)
        send(client, "DescribeConfigs", 4)


def _identified(client: InstanceClient, cluster: str = CLUSTER) -> int:
    error: int = negotiate(client, 5, clusterId=cluster, nodeId=NODE)["errorCode"]
    settle()
    return error


def rebootstrap(connect: Connect) -> None:
    with connect() as client:
        assert _identified(client) == 0
        client.request("Metadata", {}, version=12)
    with connect() as client:
        assert _identified(client) == 129
    with connect() as client:
        negotiate(client, 5)
        client.request("Metadata", {}, version=12)


def ignore_the_rebootstrap(connect: Connect) -> None:
    with connect() as client:
        _identified(client)
    with connect() as client:
        assert _identified(client) == 129
        client.request("Metadata", {}, version=12)


def forget_the_cluster(connect: Connect) -> None:
    with connect() as client:
        negotiate(client, 5)
        cluster = client.request("Metadata", {}, version=12)["clusterId"]
        assert cluster == ANOTHER_CLUSTER
    with connect() as client:
        assert _identified(client, cluster) == 129
    with connect() as client:
        negotiate(client, 5)


def remember_the_cluster(connect: Connect) -> None:
    for _ in range(2):
        with connect() as client:
            assert _identified(client, ANOTHER_CLUSTER) == 129


def go_on_as_the_same(connect: Connect) -> None:
    """Join again on another connection, when one breaks, and leave in the end."""
    _ask_the_second(connect)
    for _ in range(3):
        with connect() as client, pytest.raises(ConnectionClosedError):
            member = _begin(client)
            for epoch in (JOIN, 1):
                beat(client, member, epoch, version=2)
    with connect() as client:
        beat(client, _begin(client), LEAVE, version=2)


def _begin(client: InstanceClient) -> str:
    """Ask on header v3, and return the member ID that KIP-1313 wants of the client."""
    negotiate(client, HEADER_V3, clusterId=CLUSTER, nodeId=NODE)
    return identifier_text(client.instance_id)


def _ask_the_second(connect: Connect) -> None:
    """Find out what there is, at the second broker."""
    with connect(1) as client:
        negotiate(client, HEADER_V3)
        client.request("Metadata", {})


def go_on_without_asking(connect: Connect) -> None:
    with connect() as client:
        negotiate(client, 4)
    for member, version in (("", 0), (MEMBER, 1), (MEMBER, 1)):
        with connect() as client, pytest.raises(ConnectionClosedError):
            for epoch in (JOIN, 1):
                beat(client, member, epoch, version=version)


def _rejoin(connect: Connect, members: tuple[str, str]) -> None:
    with connect() as client:
        negotiate(client, 4)
        for member in members:
            epoch = beat(client, member, JOIN)["memberEpoch"]
            while not beat(client, member, epoch)["errorCode"]:
                settle()
            commit = {"groupId": f"{GROUP}-ConsumerGroupHeartbeat", "memberId": member, "topics": []}
            client.request("OffsetCommit", commit, version=9)


def stay_the_same(connect: Connect) -> None:
    _rejoin(connect, (MEMBER, MEMBER))


def become_another(connect: Connect) -> None:
    _rejoin(connect, (MEMBER, OTHER))


def ask_again(connect: Connect) -> None:
    """Connect as the same instance, beside a connection that lasts, ask and log in."""
    _ask_the_second(connect)
    with connect() as lasting:
        _log_in(lasting)
        for _ in range(2):
            with connect() as client:
                _log_in(client)
                with pytest.raises(ConnectionClosedError):
                    for _ in range(10):
                        client.request("FindCoordinator", {"coordinatorKeys": [GROUP]})
        lasting.request("FindCoordinator", {"coordinatorKeys": [GROUP]})


def _log_in(client: InstanceClient) -> None:
    _begin(client)
    assert authenticate(client, Login("PLAIN", "user", "secret"), client.newest("SaslAuthenticate"))


def ask_once(connect: Connect) -> None:
    with connect() as client:
        negotiate(client, 4)
    for _ in range(3):
        with connect() as client, pytest.raises(ConnectionClosedError):
            for _ in range(10):
                client.request("Metadata", {}, version=12)


class Case(NamedTuple):
    dutiful: Play
    offending: Play
    rule: str


CASES = {
    "versions-refused": Case(ask_in_range, insist, "kip511/fallback-version-wrong"),
    "software-refused": Case(leave_the_refused, use_the_refused, "kip511/connection-kept"),
    "older-broker": Case(go_by_the_list, go_beyond_the_list, "kip35/version-out-of-range"),
    "api-withdrawn": Case(do_without, use_the_withdrawn, "kip35/api-not-advertised"),
    "mixed-brokers": Case(go_by_the_list, go_beyond_the_list, "kip35/version-out-of-range"),
    "rebootstrap": Case(rebootstrap, ignore_the_rebootstrap, "kip1242/rebootstrap-ignored"),
    "another-cluster": Case(forget_the_cluster, remember_the_cluster, "kip1242/rebootstrap-with-ids"),
    "heartbeats-lost": Case(go_on_as_the_same, go_on_without_asking, "kip35/negotiation-not-repeated"),
    "members-fenced": Case(stay_the_same, become_another, "kip1082/member-id-changed"),
    "connections-closed": Case(ask_again, ask_once, "kip35/negotiation-not-repeated"),
}


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The relay's clock runs ahead instead of a test that waits until a response counts as read."""
    clock = SimpleNamespace(time_ns=lambda: time.time_ns() + _CLOCK.ahead)
    monkeypatch.setattr(relay, "time", clock)


def provoked(provocation: Provocation, play: Play, save: Path) -> Examination:
    """Play a client behind relays that provoke it, and judge the recording."""
    begin = partial(provocation.begin, SCHEMAS)
    with (
        ModelBroker() as broker,
        ModelBroker() as second,
        save.open("wb") as stream,
        Relays(SCHEMAS, stream, begin=begin) as relays,
    ):
        addresses = [relays.address_of(each.address) for each in (broker, second)]
        instance_id = new_instance_id()

        def connect(broker: int = 0) -> InstanceClient:
            settle()
            return InstanceClient(SCHEMAS, addresses[broker], "tester", instance_id)

        play(connect)
        time.sleep(0.1)
    return examine(save, SCHEMAS, [port for _host, port in addresses])


def coverage(examination: Examination, rule: str) -> Coverage:
    return next(row for row in examination.coverage if row.rule == rule)


@pytest.mark.parametrize("provocation", PROVOCATIONS, ids=lambda each: each.name)
def test_who_does_its_duty_is_accused_of_nothing_and_who_does_not_is_named(
    provocation: Provocation, tmp_path: Path
) -> None:
    """Both together let each rule that the provocation names decide something."""
    case = CASES[provocation.name]
    assert case.rule in provocation.rules
    dutiful = provoked(provocation, case.dutiful, tmp_path / "dutiful.pcap")
    offending = provoked(provocation, case.offending, tmp_path / "offending.pcap")
    accused = [each for each in dutiful.findings if (each.role, each.level) == (Role.CLIENT, "violation")]
    assert accused == []
    assert coverage(dutiful, case.rule).violates == 0
    assert case.rule in {finding.rule for finding in offending.findings}
    exercised = {row.rule for each in (dutiful, offending) for row in each.coverage if row.exercised}
    assert exercised >= set(provocation.rules)


@pytest.mark.parametrize("provocation", PROVOCATIONS, ids=lambda each: each.name)
def test_no_listed_range_ends_before_it_begins(provocation: Provocation) -> None:
    """Although the broker has one version of an API."""
    listed = [{"apiKey": key, "minVersion": 4, "maxVersion": 4} for key in (3, 10, 18)]
    frame = write_response(SCHEMAS, "ApiVersions", 3, 7, {"apiKeys": listed})
    for connection in range(2):
        altered = provocation.begin(SCHEMAS, connection)(ForwardedRequest(18, "ApiVersions", 3), frame)
        body = read_response(SCHEMAS, altered or frame, 18, 3).body or {}
        assert [each for each in body["apiKeys"] if each["minVersion"] > each["maxVersion"]] == []


def test_provocations_name_rules_about_clients() -> None:
    clients = {rule.id for rule in RULES if rule.role is Role.CLIENT}
    assert {rule for provocation in PROVOCATIONS for rule in provocation.rules} <= clients
