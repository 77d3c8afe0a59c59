"""The agent in a broker of Kafka 3.9, and ChaCha20-Poly1305 over TLS 1.3: requests are those of its log."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from decoders.schema.registry import default_schemas
from decoders.tls import session
from decoders.tls.handshake import TLS_1_3
from decoders.tls.protection import Aead, CipherSuite, cipher_suite
from streaming.check.examination import examine
from tests.clients.releases import of_release
from tests.scenarios.new_clients import run_new_clients, trusting
from tests.streaming.broker.request_log import read_request_log
from tests.streaming.feeder.live import LiveFeeder, assert_same_requests, captures
from tests.streaming.feeder.test_live import published
from tests.tls.key_logging_broker import KeyLoggingBroker

pytestmark = [pytest.mark.jvm, pytest.mark.long, pytest.mark.timeout(400)]

RELEASE = "3.9.1"
CHACHA20 = "TLS_CHACHA20_POLY1305_SHA256"


class OlderBroker(KeyLoggingBroker):
    """The broker of an older release, with the group protocols that the clients use."""

    def _write_settings(self) -> None:
        super()._write_settings()
        with self._folder.properties.open("a") as properties:
            properties.write("group.coordinator.rebalance.protocols=classic,consumer\n")

    def _java(self, *arguments: str | Path) -> list[str | Path]:
        return of_release(super()._java(*arguments), RELEASE)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OlderBroker]:
    with OlderBroker(tmp_path_factory.mktemp("older")) as made:
        made.create_topic()
        yield made


@captures
def test_kafkas_clients_at_a_broker_of_3_9_in_each_suite(
    broker: OlderBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By TLS 1.2, by TLS 1.3 as the peers choose, and by TLS 1.3 with ChaCha20-Poly1305 alone."""
    old, tls = (int(address.rpartition(":")[2]) for address in (broker.old, broker.tls))
    trusted, capture = trusting(broker.certificate), tmp_path / "tls.pcap"
    before = len(list(read_request_log(broker.request_log)))
    flags = ["--tls-keylog", str(broker.key_log), "--save", str(capture)]
    with LiveFeeder(tmp_path / "feed.log", broker.client_ports, broker.internal, *flags) as feeder:
        for port, more in ((old, []), (tls, []), (tls, [f"ssl.cipher.suites={CHACHA20}"])):
            run_new_clients(port, settings=[*trusted, *more])
        time.sleep(1)
        stopped = feeder.stop()
    assert "skipped-encrypted" not in stopped["bytes"]
    assert stopped["bytes"]["lost"] == 0
    lines = [
        line
        for line in list(read_request_log(broker.request_log))[before:]
        if line.listener in {"TLS", "OLD"}
    ]
    assert_same_requests(published(broker), lines)
    chosen = count_suites(monkeypatch)
    judged = examine(capture, default_schemas(), broker.tls_ports, key_logs=[broker.key_log])
    assert (judged.undecodable, judged.opaque) == ({}, 0)
    assert CipherSuite(TLS_1_3, Aead.CHACHA20_POLY1305, "sha256") in chosen
    assert len(chosen) == 3


def count_suites(monkeypatch: pytest.MonkeyPatch) -> set[CipherSuite]:
    """Let each suite that a server chooses come into the returned set."""
    chosen: set[CipherSuite] = set()

    def noted(version: int, number: int) -> CipherSuite | None:
        suite = cipher_suite(version, number)
        if suite is not None:
            chosen.add(suite)
        return suite

    monkeypatch.setattr(session, "cipher_suite", noted)
    return chosen
