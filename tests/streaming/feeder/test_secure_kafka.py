"""The feeder publishes to a real broker that requires TLS and a password, and the audit reads from it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from streaming.audit.frames_topic import latest_records
from streaming.broker.topics import create_topics
from streaming.feeder.publisher import Publisher
from streaming.settings.kafka_client import Setting
from tests.streaming.commands.ran import run_process
from tests.streaming.feeder.live import FRAMES
from tests.streaming.secure_broker import PASSWORD, USER, SecureBroker

pytestmark = pytest.mark.jvm

CAPTURE = Path(__file__).parents[2] / "captures" / "real_clients.pcap"
PORT = "38433"
"""The port of the broker in it."""
PATIENCE = 30.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    with SecureBroker(tmp_path_factory.mktemp("secure")) as running:
        create_topics(running.internal, FRAMES, "kipwatch.findings")
        yield running


def settings(broker: SecureBroker) -> dict[str, Setting]:
    return {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(broker.certificate),
        "sasl.mechanism": "PLAIN",
        "sasl.username": USER,
        "sasl.password": "env:KIPWATCH_TEST_PASSWORD",
    }


def test_a_capture_is_published_and_audited_over_tls_with_a_password_of_the_environment(
    broker: SecureBroker, tmp_path: Path
) -> None:
    table = "".join(f"{json.dumps(name)} = {json.dumps(value)}\n" for name, value in settings(broker).items())
    config = tmp_path / "kipwatch.toml"
    config.write_text(f"[kafka]\n{table}")
    flags = ["--ports", PORT, "--bootstrap", broker.sasl, "--config", config]
    flags += ["--feeder-metrics-address", "127.0.0.1:0"]
    ran = run_process("feed", CAPTURE, *flags, KIPWATCH_TEST_PASSWORD=PASSWORD)
    assert ran.status == 0, ran.errors
    delivered = json.loads(ran.output.splitlines()[-1])["records"]["delivered"]
    assert len(latest_records(broker.internal, FRAMES, 10_000)) == delivered > 100
    audit = ["audit", "--bootstrap", broker.sasl, "--config", config]
    audited = run_process(*audit, KIPWATCH_TEST_PASSWORD=PASSWORD)
    assert audited.status == 0, audited.errors
    assert "do not hold" not in audited.output


def test_a_feeder_that_kafka_refuses_logs_that_and_is_not_ready(
    broker: SecureBroker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KIPWATCH_TEST_PASSWORD", "guessed")
    publisher = Publisher(broker.sasl, FRAMES, settings(broker), 1_000_000, lambda: True)
    deadline = time.monotonic() + PATIENCE
    while publisher.is_accepting:
        assert time.monotonic() < deadline
        time.sleep(0.05)
        publisher.poll()
    event = json.loads(capsys.readouterr().out.splitlines()[0])
    assert (event["feeder"], event["error"]) == ("kafka-trouble", "_AUTHENTICATION")
    assert "guessed" not in str(event)
