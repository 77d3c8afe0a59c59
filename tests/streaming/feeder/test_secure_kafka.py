"""The feeder publishes to a real broker that requires TLS and a password, and the audit reads from it."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from streaming.audit.frames_topic import latest_slice
from streaming.broker.topics import create_topics
from streaming.feeder.publisher import Publisher
from streaming.settings.kafka_client import Setting
from tests.streaming.commands.ran import run_process
from tests.streaming.feeder.known_topic import KnownTopic
from tests.streaming.feeder.live import FRAMES
from tests.streaming.secure_broker import PASSWORD, PASSWORD_VARIABLE, USER, SecureBroker
from tests.waiting import until

pytestmark = pytest.mark.jvm

CAPTURE = Path(__file__).parents[2] / "captures" / "real_clients.pcap"
PORT = "38433"
"""The port of the broker in it."""
PATIENCE = 30.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    with SecureBroker(tmp_path_factory.mktemp("secure")) as running:
        create_topics(running.internal, FRAMES, "kipwatch.findings")
        running.grant(USER, (ResourceType.TOPIC, FRAMES, AclOperation.WRITE))
        running.grant("auditor", (ResourceType.TOPIC, FRAMES, AclOperation.READ))
        running.grant("auditor", (ResourceType.GROUP, "kipwatch-audit", AclOperation.READ))
        yield running


def configured(folder: Path, settings: Mapping[str, Setting]) -> Path:
    config = folder / f"{settings['sasl.username']}.toml"
    table = "".join(f"{json.dumps(name)} = {json.dumps(value)}\n" for name, value in settings.items())
    config.write_text(f"[kafka]\n{table}")
    return config


def test_a_capture_is_published_and_audited_over_tls_with_a_password_of_the_environment(
    broker: SecureBroker, tmp_path: Path
) -> None:
    config = configured(tmp_path, broker.login(USER))
    flags = ["--ports", PORT, "--bootstrap", broker.sasl, "--config", config]
    flags += ["--feeder-metrics-address", "127.0.0.1:0"]
    ran = run_process("feed", CAPTURE, *flags, KIPWATCH_TEST_PASSWORD=PASSWORD)
    assert ran.status == 0, ran.errors
    delivered = json.loads(ran.output.splitlines()[-1])["records"]["delivered"]
    assert len(latest_slice(broker.internal, FRAMES, 10_000).frames) == delivered > 100
    audit = ["audit", "--bootstrap", broker.sasl, "--config", configured(tmp_path, broker.login("auditor"))]
    audited = run_process(*audit, KIPWATCH_TEST_PASSWORD=PASSWORD)
    assert audited.status == 0, audited.errors
    assert "do not hold" not in audited.output


def test_a_feeder_without_rights_serves_no_page_before_it_ends(broker: SecureBroker, tmp_path: Path) -> None:
    """If it did, each of its restarts would reset the wait of the alert on an absent feeder."""
    config = configured(tmp_path, broker.login("query"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        flags = ["--ports", PORT, "--bootstrap", broker.sasl, "--config", config]
        flags += ["--feeder-metrics-address", f"127.0.0.1:{taken.getsockname()[1]}"]
        ran = run_process("feed", CAPTURE, *flags, KIPWATCH_TEST_PASSWORD=PASSWORD)
    assert f"cannot use the topic {FRAMES}" in ran.error_line


def test_a_feeder_that_kafka_refuses_logs_that_and_is_not_ready(
    broker: SecureBroker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, "guessed")
    login, topic = broker.login(USER), KnownTopic()
    publisher = Publisher(broker.sasl, FRAMES, login, 1_000_000, lambda: True, topic=topic)

    def is_refused() -> bool:
        publisher.poll()
        return not publisher.is_accepting

    until(is_refused, PATIENCE, every=0.05)
    event = json.loads(capsys.readouterr().out.splitlines()[0])
    assert (event["feeder"], event["error"]) == ("kafka-trouble", "_AUTHENTICATION")
    assert "guessed" not in str(event)
