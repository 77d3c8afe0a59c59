"""What the doctor sees on watched ports of the loopback interface: Kafka, TLS, something else, nothing."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator

import pytest

from streaming.doctor.diagnosis import Diagnosis, Verdict
from streaming.doctor.watched_ports import watched_ports
from streaming.settings.configuration import Configuration
from tests.decoders.wire.conversation import metadata, prefixed
from tests.streaming.feeder.live import captures

Talk = Callable[[socket.socket], object]
SECONDS = 2.0


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@contextlib.contextmanager
def talking(listener: socket.socket, talk: Talk) -> Iterator[int]:
    """Connect to a port again and again, and speak; yields the port."""
    ended = threading.Event()

    def connect() -> None:
        while not ended.wait(0.1):
            with socket.create_connection(listener.getsockname()) as client, listener.accept()[0]:
                client.settimeout(0.1)
                with contextlib.suppress(OSError):
                    talk(client)

    thread = threading.Thread(target=connect)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        ended.set()
        thread.join()


def seen(port: int) -> Diagnosis:
    (found,) = watched_ports(Configuration(interface=["lo"], ports=[port]), SECONDS)
    assert found.name == f"port {port}"
    return found


def begin_tls(client: socket.socket) -> None:
    ssl.create_default_context().wrap_socket(client, server_hostname="broker")


@captures
def test_kafka_is_counted(listener: socket.socket) -> None:
    with talking(listener, lambda client: client.sendall(prefixed(metadata(1)))) as port:
        found = seen(port)
    assert (found.verdict, "bytes of Kafka on lo" in found.detail) == (Verdict.YES, True)


@captures
def test_tls_is_told(listener: socket.socket) -> None:
    with talking(listener, begin_tls) as port:
        found = seen(port)
    assert found.verdict is Verdict.NO
    assert found.detail.startswith("carries TLS: nothing is judged there")


@captures
def test_another_protocol_is_told(listener: socket.socket) -> None:
    with talking(listener, lambda client: client.sendall(b"GET / HTTP/1.1\r\n\r\n")) as port:
        found = seen(port)
    assert (found.verdict, "not Kafka" in found.detail) == (Verdict.NOTE, True)


@captures
def test_silence_is_told(listener: socket.socket) -> None:
    found = seen(listener.getsockname()[1])
    assert (found.verdict, found.detail.startswith("nothing on lo in 2 s: ")) == (Verdict.NOTE, True)
