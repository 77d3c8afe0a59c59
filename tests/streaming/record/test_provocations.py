"""Each provocation, with a client that does its duty and with one that does not."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from expectations.report.coverage import Coverage
from expectations.rules.base.rule import Role
from expectations.rules.catalogue import RULES
from streaming.check.examination import Examination, examine
from streaming.probe.client import ConnectionClosedError, InstanceClient, new_instance_id
from streaming.probe.requests import JOIN, beat, negotiate, send
from streaming.record import relay
from streaming.record.provocations import ANOTHER_CLUSTER, PROVOCATIONS, Provocation
from streaming.record.relay import Relays
from tests.streaming.probe.model_broker import SCHEMAS, ModelBroker

MEMBER, OTHER = "kcjqdTIoQMuWKqjv0mmNEw", "t1DVi8ZtQ7ipVPBY2tX9gg"
READ = 6_000_000_000
Connect = Callable[[], InstanceClient]
"""Opens a connection of the client through the relay; what it has read by then counts as read."""


def ask_in_range(connect: Connect) -> None:
    with connect() as client:
        assert negotiate(client, 4)["errorCode"] == 35
        assert negotiate(client, 2)["errorCode"] == 0
        client.request("Metadata", {}, version=12)


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
    for _ in range(2):
        with connect() as client:
            client.request("Metadata", {}, version=_listed(client)[3])


def go_beyond_the_list(connect: Connect) -> None:
    for _ in range(2):
        with connect() as client:
            _listed(client)
            client.request("Metadata", {}, version=13)


def do_without(connect: Connect) -> None:
    with connect() as client:
        assert client.key("DescribeConfigs") not in _listed(client)
        client.request("Metadata", {}, version=12)


def use_the_withdrawn(connect: Connect) -> None:
    with connect() as client:
        _listed(client)
        send(client, "DescribeConfigs", 4)


def _identified(client: InstanceClient, cluster: str = "model", node: int = 1) -> int:
    error: int = negotiate(client, 5, clusterId=cluster, nodeId=node)["errorCode"]
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
    """Join again on another connection, when one breaks."""
    for _ in range(3):
        with connect() as client, pytest.raises(ConnectionClosedError):
            negotiate(client, 4)
            epoch = beat(client, MEMBER, JOIN)["memberEpoch"]
            for _ in range(3):
                beat(client, MEMBER, epoch)


def go_on_without_asking(connect: Connect) -> None:
    with connect() as client:
        negotiate(client, 4)
    for _ in range(3):
        with connect() as client, pytest.raises(ConnectionClosedError):
            for epoch in (JOIN, 1, 1):
                beat(client, MEMBER, epoch)


def _rejoin(connect: Connect, members: tuple[str, str]) -> None:
    with connect() as client:
        negotiate(client, 4)
        for member in members:
            epoch = beat(client, member, JOIN)["memberEpoch"]
            while not beat(client, member, epoch)["errorCode"]:
                settle()


def stay_the_same(connect: Connect) -> None:
    _rejoin(connect, (MEMBER, MEMBER))


def become_another(connect: Connect) -> None:
    _rejoin(connect, (MEMBER, OTHER))


def ask_again(connect: Connect) -> None:
    for _ in range(3):
        with connect() as client:
            negotiate(client, 4)
            with pytest.raises(ConnectionClosedError):
                for _ in range(10):
                    client.request("Metadata", {}, version=12)


def ask_once(connect: Connect) -> None:
    with connect() as client:
        negotiate(client, 4)
    for _ in range(3):
        with connect() as client, pytest.raises(ConnectionClosedError):
            for _ in range(10):
                client.request("Metadata", {}, version=12)


class Case(NamedTuple):
    dutiful: Callable[[Connect], None]
    offending: Callable[[Connect], None]
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


def provoked(provocation: Provocation, play: Callable[[Connect], None], folder: Path) -> Examination:
    """Play a client behind relays that provoke it, and judge the recording."""
    save = folder / "provoked.pcap"
    begin = partial(provocation.begin, SCHEMAS)
    with ModelBroker(5) as broker, save.open("wb") as stream, Relays(SCHEMAS, stream, begin=begin) as relays:
        address, instance_id = relays.address_of(broker.address), new_instance_id()

        def connect() -> InstanceClient:
            settle()
            return InstanceClient(SCHEMAS, address, "tester", instance_id)

        play(connect)
        time.sleep(0.1)
    return examine(save, SCHEMAS, [address[1]])


def coverage(examination: Examination, rule: str) -> Coverage:
    return next(row for row in examination.coverage if row.rule == rule)


@pytest.mark.parametrize("provocation", PROVOCATIONS, ids=lambda each: each.name)
def test_a_client_that_does_its_duty_is_accused_of_nothing(provocation: Provocation, tmp_path: Path) -> None:
    case = CASES[provocation.name]
    examination = provoked(provocation, case.dutiful, tmp_path)
    violations = [
        each for each in examination.findings if each.role == Role.CLIENT and each.level == "violation"
    ]
    assert violations == []
    assert coverage(examination, case.rule).violates == 0
    assert any(coverage(examination, rule).exercised for rule in provocation.rules)


@pytest.mark.parametrize("provocation", PROVOCATIONS, ids=lambda each: each.name)
def test_a_client_that_does_not_is_named(provocation: Provocation, tmp_path: Path) -> None:
    case = CASES[provocation.name]
    assert case.rule in provocation.rules
    found = {finding.rule for finding in provoked(provocation, case.offending, tmp_path).findings}
    assert case.rule in found


def test_provocations_name_rules_about_clients() -> None:
    clients = {rule.id for rule in RULES if rule.role is Role.CLIENT}
    assert {rule for provocation in PROVOCATIONS for rule in provocation.rules} <= clients
