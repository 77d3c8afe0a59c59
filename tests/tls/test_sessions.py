"""Sessions of real peers: keys that are updated on the way, Kafka's own clients."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from decoders.schema.registry import default_schemas
from decoders.tls.receiver import Receiver
from streaming.check.examination import examine
from tests.decoders.wire.conversation import api_versions, prefixed
from tests.scenarios.new_clients import run_new_clients, trusting
from tests.scenarios.requests import TOPIC
from tests.streaming.broker.request_log import read_request_log
from tests.streaming.feeder.live import LiveFeeder, assert_same_requests, captures
from tests.streaming.feeder.test_live import published
from tests.tls.key_logging_broker import KeyLoggingBroker

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(400)]

REQUESTS = 600
"""On one connection. The broker responds to each with about half a kilobyte."""
CONNECTIONS = 2
"""Of each version of TLS."""
KEY_LIMIT = "2^16"
VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeyLoggingBroker]:
    with KeyLoggingBroker(tmp_path_factory.mktemp("sessions"), KEY_LIMIT) as made:
        admin = AdminClient({"bootstrap.servers": made.internal})
        for created in admin.create_topics([NewTopic(TOPIC, 2)]).values():
            created.result()
        yield made


def feeding(broker: KeyLoggingBroker, folder: Path) -> LiveFeeder:
    flags = ["--tls-keylog", str(broker.key_log), "--save", str(folder / "tls.pcap")]
    return LiveFeeder(folder / "feed.log", broker.tls_ports, broker.internal, *flags)


def converse(context: ssl.SSLContext, address: str) -> None:
    """Send REQUESTS on one connection, each after the response to the one before."""
    host, port = address.split(":")
    with (
        socket.create_connection((host, int(port))) as plain,
        context.wrap_socket(plain, server_hostname=host) as connection,
    ):
        for number in range(REQUESTS):
            connection.sendall(prefixed(api_versions(number)))
            size = int.from_bytes(exactly(connection, 4))
            exactly(connection, size)


def exactly(connection: ssl.SSLSocket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        chunk = connection.recv(size - len(received))
        assert chunk
        received += chunk
    return received


@captures
def test_updated_keys_are_read(
    broker: KeyLoggingBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with feeding(broker, tmp_path) as feeder:
        for version, address in zip(VERSIONS, (broker.old, broker.tls), strict=True):
            context = ssl.create_default_context(cafile=str(broker.certificate))
            context.minimum_version = context.maximum_version = version
            for _ in range(CONNECTIONS):
                converse(context, address)
        time.sleep(1)
        stopped = feeder.stop()
    assert "skipped-encrypted" not in stopped["bytes"]
    assert stopped["bytes"]["lost"] == 0
    updates = count_updates(monkeypatch)
    judged = examine(tmp_path / "tls.pcap", default_schemas(), broker.tls_ports, key_logs=[broker.key_log])
    assert judged.frames == 2 * CONNECTIONS * len(VERSIONS) * REQUESTS
    assert (judged.undecodable, judged.opaque) == ({}, 0)
    # Two connections of TLS 1.3, in both directions: a peer that updates its keys asks the other one to.
    assert len(updates) > 8


def count_updates(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let each update of keys add an item to the returned list."""
    updates: list[int] = []
    update = Receiver._update

    def counted(receiver: Receiver) -> None:
        updates.append(receiver.number)
        update(receiver)

    monkeypatch.setattr(Receiver, "_update", counted)
    return updates


@captures
def test_kafkas_own_clients(broker: KeyLoggingBroker, tmp_path: Path) -> None:
    """4.4.0, over TLS 1.2 and 1.3: each request is one that the broker logged."""
    before = len(list(read_request_log(broker.request_log)))
    with feeding(broker, tmp_path) as feeder:
        for address in (broker.old, broker.tls):
            run_new_clients(int(address.rpartition(":")[2]), settings=trusting(broker.certificate))
        time.sleep(1)
        stopped = feeder.stop()
    lines = [
        line
        for line in list(read_request_log(broker.request_log))[before:]
        if line.listener in {"TLS", "OLD"}
    ]
    records = published(broker)
    run = max(record.run for record in records)
    assert_same_requests([record for record in records if record.run == run], lines)
    assert "skipped-encrypted" not in stopped["bytes"]
    judged = examine(tmp_path / "tls.pcap", default_schemas(), broker.tls_ports, key_logs=[broker.key_log])
    assert (judged.violates, judged.undecodable, judged.opaque) == (False, {}, 0)
