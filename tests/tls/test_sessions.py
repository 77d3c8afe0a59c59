"""Sessions of real peers: keys that are updated on the way, resumed sessions, Kafka's own clients."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from decoders.schema.registry import default_schemas
from decoders.tls.protection import CipherSuite, next_secret
from streaming.broker.ports import HOST
from streaming.check.examination import examine
from streaming.demo.loopback import DemoTls, TlsEndpoint
from tests.decoders.wire.conversation import api_versions, prefixed
from tests.scenarios.new_clients import run_new_clients, trusting
from tests.streaming.broker.request_log import read_request_log
from tests.streaming.feeder.live import LiveFeeder, assert_same_requests, captures
from tests.streaming.feeder.test_live import published
from tests.tls.key_logging_broker import KeyLoggingBroker
from tests.tls.told import told
from tests.tls.tshark import assert_tshark_reads_the_same

pytestmark = [pytest.mark.jvm, pytest.mark.slow, pytest.mark.timeout(400)]

REQUESTS = 600
"""On one connection. The broker responds to each with about half a kilobyte."""
CONNECTIONS = 2
"""Of each version of TLS."""
NETWORK_THREADS = 3
"""Of a listener. They take connections in turn, and each resumes its own sessions alone."""
KEY_LIMIT = "2^16"
VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeyLoggingBroker]:
    with KeyLoggingBroker(tmp_path_factory.mktemp("sessions"), KEY_LIMIT) as made:
        made.create_topic()
        yield made


def feeding(broker: KeyLoggingBroker, folder: Path) -> LiveFeeder:
    flags = ["--tls-keylog", str(broker.key_log), "--save", str(folder / "tls.pcap")]
    return LiveFeeder(folder / "feed.log", broker.client_ports, broker.internal, *flags)


class Conversation(NamedTuple):
    """Whether it resumed the session that was offered, and the session that it leaves."""

    is_resumed: bool | None
    session: ssl.SSLSession | None


def converse(
    context: ssl.SSLContext, address: str, count: int = REQUESTS, session: ssl.SSLSession | None = None
) -> Conversation:
    """Send requests on one connection, each after the response to the one before."""
    host, port = address.split(":")
    with (
        socket.create_connection((host, int(port))) as plain,
        context.wrap_socket(plain, server_hostname=host, session=session) as connection,
    ):
        for number in range(count):
            connection.sendall(prefixed(api_versions(number)))
            size = int.from_bytes(exactly(connection, 4))
            exactly(connection, size)
        return Conversation(connection.session_reused, connection.session)


def context_of(certificate: Path, version: ssl.TLSVersion) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(certificate))
    context.minimum_version = context.maximum_version = version
    return context


def exactly(connection: ssl.SSLSocket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        chunk = connection.recv(size - len(received))
        assert chunk
        received += chunk
    return received


@captures
@pytest.mark.long
def test_updated_keys_are_read(
    broker: KeyLoggingBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with feeding(broker, tmp_path) as feeder:
        for version, address in zip(VERSIONS, (broker.old, broker.tls), strict=True):
            for _ in range(CONNECTIONS):
                converse(context_of(broker.certificate, version), address)
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


def count_updates(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Let each update of keys add an item to the returned list."""
    updates: list[bytes] = []

    def counted(suite: CipherSuite, secret: bytes) -> bytes:
        updates.append(secret)
        return next_secret(suite, secret)

    monkeypatch.setattr("decoders.tls.receiver.next_secret", counted)
    return updates


@captures
@pytest.mark.long
def test_resumed_sessions_are_read(broker: KeyLoggingBroker, tmp_path: Path) -> None:
    """Those of the broker, and those of a proxy that ends TLS before it."""
    proxy, capture = DemoTls(tmp_path), tmp_path / "tls.pcap"
    before = len(list(read_request_log(broker.request_log)))
    with TlsEndpoint(proxy, (HOST, broker.ports.watched)) as endpoint:
        port = endpoint.address[1]
        flags = ["--tls-keylog", str(proxy.key_log), "--tls-keylog", str(broker.key_log)]
        ports = [*broker.tls_ports, port]
        saved = ["--save", str(capture)]
        with LiveFeeder(tmp_path / "feed.log", ports, broker.internal, *flags, *saved) as feeder:
            for version, address in zip(VERSIONS, (broker.old, broker.tls), strict=True):
                of_broker, of_proxy = (
                    context_of(each, version) for each in (broker.certificate, proxy.certificate)
                )
                assert count_resumed(of_broker, address) == 1
                assert count_resumed(of_proxy, f"{HOST}:{port}") == NETWORK_THREADS
            time.sleep(1)
            stopped = feeder.stop()
    assert "skipped-encrypted" not in stopped["bytes"]
    records = published(broker)
    run = max(record.run for record in records)
    lines = list(read_request_log(broker.request_log))[before:]
    assert_same_requests([record for record in records if record.run == run], lines)
    # By TLS 1.2 tshark reads no session that the broker has resumed: its agent logs the secret once.
    assert_tshark_reads_the_same(capture, broker.key_log, [int(broker.tls.rpartition(":")[2])])
    assert_tshark_reads_the_same(capture, proxy.key_log, [port])


def count_resumed(context: ssl.SSLContext, address: str) -> int:
    """Offer a session to each thread of a listener, and return how many resumed it."""
    _, session = converse(context, address, 2)
    offered = [converse(context, address, 2, session) for _ in range(NETWORK_THREADS)]
    return sum(bool(each.is_resumed) for each in offered)


@captures
def test_kafkas_own_clients(broker: KeyLoggingBroker, tmp_path: Path) -> None:
    """4.4.0, over TLS 1.2 and 1.3 as in plaintext: each request is one that the broker logged."""
    before = len(list(read_request_log(broker.request_log)))
    addresses, capture = (broker.watched, broker.old, broker.tls), tmp_path / "tls.pcap"
    with feeding(broker, tmp_path) as feeder:
        for address in addresses:
            trusted = [] if address == broker.watched else trusting(broker.certificate)
            run_new_clients(int(address.rpartition(":")[2]), settings=trusted)
        time.sleep(1)
        stopped = feeder.stop()
    lines = [
        line
        for line in list(read_request_log(broker.request_log))[before:]
        if line.listener in {"WATCHED", "TLS", "OLD"}
    ]
    records = published(broker)
    run = max(record.run for record in records)
    assert_same_requests([record for record in records if record.run == run], lines)
    assert "skipped-encrypted" not in stopped["bytes"]
    assert_tshark_reads_the_same(capture, broker.key_log, broker.tls_ports)
    plain, *encrypted = (told(capture, address, broker.key_log) for address in addresses)
    assert encrypted == [plain, plain]
    assert "violation" not in {finding[1] for finding in plain}
