"""Real clients at listeners of real brokers that demand a login, TLS or neither, with such settings or not.

The broker of Kafka 3.9 takes its time to start, so it is for `make long`.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer

from decoders.protocol import API_VERSIONS
from expectations.rules.base.rule import Role
from streaming.broker.ports import HOST
from streaming.probe.client import TOPIC, negotiate
from tests.clients.releases import of_release
from tests.scenarios.new_clients import login, run_new_clients
from tests.scenarios.new_clients import trusting as trusted
from tests.scenarios.stage import (
    PASSWORD,
    SCRAM,
    USER,
    Stage,
    StageBroker,
    asked,
    found,
    furnish,
    raised_stage,
)
from tests.streaming.broker.request_log import read_request_log

pytestmark = [pytest.mark.jvm, pytest.mark.e2e]

CLIENTS = ["librdkafka", "Java"]
OLDER = "3.9.1"
ROUNDS = 2
"""Tokens that a client sends with SCRAM: its nonce, then its proof."""
PATIENCE = 60.0
"""Seconds that the broker may take to write its log."""
MISCONFIGURED = 4.0
"""Seconds for which a client with wrong settings connects again and again."""
PATIENT = ["max.block.ms=20000"]
"""The settings of a Java client that does so for longer."""


LOGIN = {
    "security.protocol": "sasl_plaintext",
    "sasl.mechanism": SCRAM,
    "sasl.username": USER,
    "sasl.password": PASSWORD,
}


class OlderBroker(StageBroker):
    """The same listeners of an older broker."""

    def _java(self, *arguments: str | Path) -> list[str | Path]:
        return of_release(super()._java(*arguments), OLDER)


@pytest.fixture(
    scope="module",
    params=["pinned", pytest.param("older", marks=[pytest.mark.long, pytest.mark.timeout(400)])],
)
def secured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The stage, or one with an older broker."""
    if request.param == "pinned":
        yield request.getfixturevalue("stage")
    else:
        with raised_stage(tmp_path_factory.mktemp("older"), OlderBroker, furnish) as raised:
            yield raised


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


@pytest.mark.parametrize(
    ("client", "mechanism"), [("librdkafka", "PLAIN"), ("librdkafka", SCRAM), ("Java", SCRAM)]
)
def test_the_principal_of_each_connection_is_that_of_the_brokers_log(
    stage: Stage, client: str, mechanism: str
) -> None:
    told, before = stage.broker.secured_told, principals(stage)
    with stage.watch((HOST, stage.broker.secured_port), port=told) as watch:
        if client == "Java":
            run_new_clients(told, mechanism=mechanism)
        else:
            produce(told, LOGIN | {"sasl.mechanism": mechanism})
    parties = stage.examine(watch, keeps_principals=True).parties
    named = sum(connections for party, connections in parties if party.principal == USER)
    deadline = time.monotonic() + PATIENCE
    while (
        len(logged := {name: user for name, user in principals(stage).items() if name not in before}) < named
    ):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert set(logged.values()) == {f"User:{USER}"}
    assert len(logged) == named > 0
    assert not any(party.principal for party, _ in stage.examine(watch).parties)


def principals(stage: Stage) -> dict[str, str]:
    """The principal of each connection that the broker has served behind a login, but for ApiVersions."""
    served = (
        each
        for each in read_request_log(stage.broker.request_log)
        if each.listener == "SECURED" and each.api_key != API_VERSIONS
    )
    return {each.connection: each.principal for each in served}


def connect_in_vain(
    port: int, client: str = "librdkafka", settings: Mapping[str, str] | None = None, java: Sequence[str] = ()
) -> None:
    """Let a client connect again and again, and reach nothing. `java` are the settings of Java's."""
    if client == "Java":
        with pytest.raises(subprocess.CalledProcessError):
            run_new_clients(port, settings=[f"max.block.ms={MISCONFIGURED * 1_000:.0f}", *java])
        return
    pace = {"reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 200, "log_level": 0}
    misconfigured = Producer({"bootstrap.servers": f"{HOST}:{port}", **(settings or {}), **pace})
    end = time.monotonic() + MISCONFIGURED
    while time.monotonic() < end:
        misconfigured.poll(0.1)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_without_a_login_is_found_and_the_broker_is_not(secured: Stage, client: str) -> None:
    told = secured.broker.secured_told
    with secured.watch((HOST, secured.broker.secured_port), port=told) as watch:
        produce(told, LOGIN)
        connect_in_vain(told, client, java=PATIENT if isinstance(secured.broker, OlderBroker) else ())
    findings = secured.examine(watch).findings
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
def test_a_client_without_tls_is_found_and_the_broker_is_not(secured: Stage, client: str) -> None:
    told = secured.broker.encrypted_told
    with secured.watch((HOST, secured.broker.encrypted_port), port=told) as watch:
        connect_in_vain(told, client)
    findings = secured.examine(watch).findings
    assert {(each.rule, each.role) for each in findings} == {("kip35/request-before-tls", Role.CLIENT)}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_with_tls_in_vain_is_found(secured: Stage, client: str) -> None:
    with secured.watch(secured.old) as watch:
        produce(watch.address[1], {})
        java = trusted(secured.broker.certificate)
        connect_in_vain(watch.address[1], client, trusting(secured), java)
    findings = secured.examine(watch).findings
    assert {(each.rule, each.role) for each in findings} == {("wire/not-kafka", Role.CLIENT)}
    assert findings[0].context["protocol"] == "TLS"


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_that_logs_in_in_vain_accuses_nobody(secured: Stage, client: str) -> None:
    """The broker says that this listener knows no SASL (error 34), and both sides end the connection."""
    with secured.watch(secured.old) as watch:
        # It ends as soon as the broker has refused it.
        connect_in_vain(watch.address[1], client, LOGIN, [*login(SCRAM), "max.block.ms=60000"])
    examination = secured.examine(watch)
    assert found(examination) == set()
    assert asked(examination, "SaslHandshake")[1] > 0


def test_a_client_with_tls_is_not_read_and_breaks_nothing(stage: Stage) -> None:
    told = stage.broker.encrypted_told
    with stage.watch((HOST, stage.broker.encrypted_port), port=told) as watch:
        produce(told, trusting(stage))
    assert found(stage.examine(watch)) == set()
