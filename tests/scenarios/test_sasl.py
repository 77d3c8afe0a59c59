"""SASL by real clients at the real broker: SCRAM, whose tokens go to and fro, breaks no rule."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from streaming.broker.ports import HOST
from tests.scenarios.new_clients import run_new_clients
from tests.scenarios.requests import TOPIC
from tests.scenarios.stage import PASSWORD, SCRAM, USER, Stage, asked, found

pytestmark = [pytest.mark.jvm, pytest.mark.e2e]

ROUNDS = 2
"""Tokens that a client sends with SCRAM: its nonce, then its proof."""


def produce(port: int) -> None:
    """Let librdkafka speak."""
    settings = {
        "bootstrap.servers": f"{HOST}:{port}",
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": SCRAM,
        "sasl.username": USER,
        "sasl.password": PASSWORD,
    }
    producer = Producer(settings)
    producer.produce(TOPIC, b"message")
    assert producer.flush(30) == 0


@pytest.mark.parametrize("client", ["librdkafka", "Java"])
def test_scram_takes_rounds_and_breaks_nothing(stage: Stage, client: str) -> None:
    told = stage.broker.secured_told
    with stage.watch((HOST, stage.broker.secured_port), port=told) as watch:
        if client == "Java":
            run_new_clients(told, mechanism=SCRAM)
        else:
            produce(told)
    examination = stage.examine(watch)
    assert found(examination) == set()
    assert examination.undecodable == {}
    (_, connections), (_, tokens) = (asked(examination, api) for api in ("SaslHandshake", "SaslAuthenticate"))
    assert tokens == ROUNDS * connections > 0
