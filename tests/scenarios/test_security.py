"""Real clients at listeners of the real broker that demand a login or TLS: with such settings and without."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping

import pytest
from confluent_kafka import Producer

from expectations.rules.base.rule import Role
from streaming.broker.ports import HOST
from streaming.probe.requests import TOPIC, negotiate
from tests.scenarios.new_clients import run_new_clients
from tests.scenarios.stage import PASSWORD, SCRAM, USER, Stage, asked, found

pytestmark = [pytest.mark.jvm, pytest.mark.e2e]

CLIENTS = ["librdkafka", "Java"]
ROUNDS = 2
"""Tokens that a client sends with SCRAM: its nonce, then its proof."""
MISCONFIGURED = 4.0
"""Seconds for which a client with wrong settings connects again and again."""


LOGIN = {
    "security.protocol": "sasl_plaintext",
    "sasl.mechanism": SCRAM,
    "sasl.username": USER,
    "sasl.password": PASSWORD,
}


def trusting(stage: Stage) -> dict[str, str]:
    """The settings of a client that speaks TLS."""
    return {"security.protocol": "ssl", "ssl.ca.location": str(stage.broker.certificate)}


def produce(port: int, settings: Mapping[str, str]) -> None:
    """Let librdkafka speak."""
    producer = Producer({"bootstrap.servers": f"{HOST}:{port}", **settings})
    producer.produce(TOPIC, b"message")
    assert producer.flush(30) == 0


@pytest.mark.parametrize("client", CLIENTS)
def test_scram_takes_rounds_and_breaks_nothing(stage: Stage, client: str) -> None:
    told = stage.broker.secured_told
    with stage.watch((HOST, stage.broker.secured_port), port=told) as watch:
        if client == "Java":
            run_new_clients(told, mechanism=SCRAM)
        else:
            produce(told, LOGIN)
    examination = stage.examine(watch)
    assert found(examination) == set()
    assert examination.undecodable == {}
    (_, connections), (_, tokens) = (asked(examination, api) for api in ("SaslHandshake", "SaslAuthenticate"))
    assert tokens == ROUNDS * connections > 0


def connect_in_vain(port: int, client: str = "librdkafka", settings: Mapping[str, str] | None = None) -> None:
    """Let a client connect again and again, and reach nothing."""
    if client == "Java":
        with pytest.raises(subprocess.CalledProcessError):
            run_new_clients(port, settings=[f"max.block.ms={MISCONFIGURED * 1_000:.0f}"])
        return
    pace = {"reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 200, "log_level": 0}
    misconfigured = Producer({"bootstrap.servers": f"{HOST}:{port}", **(settings or {}), **pace})
    end = time.monotonic() + MISCONFIGURED
    while time.monotonic() < end:
        misconfigured.poll(0.1)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_without_a_login_is_found_and_the_broker_is_not(stage: Stage, client: str) -> None:
    told = stage.broker.secured_told
    with stage.watch((HOST, stage.broker.secured_port), port=told) as watch:
        produce(told, LOGIN)
        connect_in_vain(told, client)
    findings = stage.examine(watch).findings
    before_login = [each for each in findings if each.rule == "kip35/request-before-sasl"]
    assert len(before_login) > 2
    assert {each.role for each in findings} == {Role.CLIENT}


def test_who_only_asks_where_others_log_in_is_told_of(stage: Stage) -> None:
    told = stage.broker.secured_told
    with stage.watch((HOST, stage.broker.secured_port), port=told) as watch:
        produce(told, LOGIN)
        with watch.client() as client:
            negotiate(client, 4)
    (finding,) = stage.examine(watch).findings
    assert finding.rule == "kip35/login-never-begun"


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_without_tls_is_found_and_the_broker_is_not(stage: Stage, client: str) -> None:
    told = stage.broker.encrypted_told
    with stage.watch((HOST, stage.broker.encrypted_port), port=told) as watch:
        connect_in_vain(told, client)
    findings = stage.examine(watch).findings
    assert {(each.rule, each.role) for each in findings} == {("kip35/request-before-tls", Role.CLIENT)}


def test_a_client_with_tls_in_vain_is_found(stage: Stage) -> None:
    with stage.watch(stage.old) as watch:
        with watch.client() as client:
            negotiate(client)
        connect_in_vain(watch.address[1], settings=trusting(stage))
    findings = stage.examine(watch).findings
    assert {(each.rule, each.role) for each in findings} == {("wire/not-kafka", Role.CLIENT)}
    assert findings[0].context["protocol"] == "TLS"


def test_a_client_with_tls_is_not_read_and_breaks_nothing(stage: Stage) -> None:
    told = stage.broker.encrypted_told
    with stage.watch((HOST, stage.broker.encrypted_port), port=told) as watch:
        produce(told, trusting(stage))
    assert found(stage.examine(watch)) == set()
