"""The embedded broker, really started."""

import socket
import struct
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from streaming.broker import ports
from streaming.broker.embedded import EmbeddedBroker, first_error
from streaming.broker.ports import HOST, reserve
from streaming.broker.topics import create_topics
from streaming.user_error import UserError
from tests.streaming.broker.request_log import LoggedRequest, read_request_log
from tests.waiting import until

# Header v1 with a null client ID, ApiVersions v0 (no body): API key 18, version 0, correlation ID 4711.
API_VERSIONS_REQUEST = struct.pack(">ihhih", 10, 18, 0, 4711, -1)


def test_a_port_in_use_is_named() -> None:
    with socket.create_server((HOST, 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(UserError, match=f"^port {port} cannot be used .*: stop what listens there"):
            EmbeddedBroker(watched_port=port)


def test_free_ports_differ_from_each_other() -> None:
    taken = reserve(0, 0)
    assert len({taken.watched, taken.internal, taken.controller}) == 3


def test_free_ports_are_outside_the_ephemeral_range(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ephemeral = tmp_path / "ip_local_port_range"
    monkeypatch.setattr(ports, "_EPHEMERAL_RANGE", ephemeral)
    ephemeral.write_text("10050\t60999\n")
    found = ports.free_ports(20)
    assert len(set(found)) == 20
    assert all(10_000 <= port < 10_050 for port in found)
    ephemeral.write_text("1024\t65535\n")
    assert len(set(ports.free_ports(20))) == 20


def test_the_first_error_is_that_of_its_exception() -> None:
    information = "2026-11-20 22:28:59,329 INFO starting (kafka.server.BrokerServer)"
    error = "2026-11-20 22:28:59,330 ERROR Unable to start acceptor for WATCHED (kafka.network.Acceptor)"
    cause = "org.apache.kafka.common.KafkaException: Socket server failed to bind to 127.0.0.1:9"
    trace = "\tat kafka.network.Acceptor.start(SocketServer.scala:1)"
    later = (
        "2026-11-20 22:28:59,452 ERROR Exiting Kafka due to fatal exception during startup. (kafka.Kafka$)"
    )
    log = "\n".join((information, error, cause, trace, later))
    assert first_error(log) == "Socket server failed to bind to 127.0.0.1:9"
    assert first_error(error) == "Unable to start acceptor for WATCHED (kafka.network.Acceptor)"
    assert first_error(information) == ""


@pytest.mark.jvm
def test_a_broker_that_cannot_start_says_why_in_one_line() -> None:
    broker = EmbeddedBroker()
    why = r"^the embedded broker ended while it started: .*Address already in use\.$"
    # The port is taken between the choice and the start.
    with socket.create_server((HOST, broker.ports.watched)), pytest.raises(UserError, match=why):
        broker.__enter__()
    assert not broker.request_log.parent.exists()


@pytest.mark.jvm
def test_closing_leaves_nothing_behind_and_a_relay_can_stand_before_the_watched_listener() -> None:
    relay = reserve(0, 0).watched
    with EmbeddedBroker(watched_advertised_port=relay) as broker:
        assert _advertised(broker.watched) == f"{HOST}:{relay}"
        assert _advertised(broker.internal) == broker.internal
        folder = broker.request_log.parent
        assert folder.exists()
    assert not folder.exists()
    for port in (broker.ports.watched, broker.ports.internal, broker.ports.controller):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((HOST, port), timeout=1)


@pytest.mark.jvm
def test_topics_of_clients_are_created_where_that_is_wanted_and_own_topics_as_configured() -> None:
    with EmbeddedBroker(auto_create_topics=True) as broker:
        create_topics(broker.internal, "frames", "findings")
        with Producer({"bootstrap.servers": broker.watched}) as producer:
            producer.produce("orders", "one")
            assert producer.flush(30.0) == 0
        admin = AdminClient({"bootstrap.servers": broker.internal})
        assert "orders" in admin.list_topics(timeout=10).topics
        (described,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, "findings")]).values()
        assert "compact" in described.result()["cleanup.policy"].value


@pytest.mark.jvm
def test_the_request_log_holds_what_the_watched_listener_served_and_nothing_else(
    broker: EmbeddedBroker,
) -> None:
    with socket.create_connection((HOST, broker.ports.watched), timeout=10) as client:
        client.sendall(API_VERSIONS_REQUEST)
        (correlation_id,) = struct.unpack(">4xi", client.recv(8, socket.MSG_WAITALL))
        name = f"{broker.watched}-{HOST}:{client.getsockname()[1]}-"
    assert correlation_id == 4711

    # The broker logs a request when it has responded.
    logged = until(lambda: [each for each in _requests(broker) if each.connection.startswith(name)])
    assert [(r.api_key, r.api_version, r.correlation_id, r.client_id) for r in logged] == [(18, 0, 4711, "")]
    assert {request.listener for request in _requests(broker)} == {"WATCHED"}


def _requests(broker: EmbeddedBroker) -> list[LoggedRequest]:
    return list(read_request_log(broker.request_log))


def _advertised(bootstrap: str) -> str:
    (node,) = (
        AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(timeout=10).brokers.values()
    )
    return f"{node.host}:{node.port}"
