"""What the doctor sees on watched ports of the loopback interface: Kafka, TLS, something else, nothing."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from streaming.doctor import Answer, Diagnosis
from streaming.doctor.machine import watched_ports
from streaming.settings.configuration import Configuration
from tests.decoders.tls.writer import SUITES, TlsWriter
from tests.decoders.wire.conversation import TO_BROKER, exchanges, metadata, prefixed
from tests.decoders.wire.encrypted import encrypted
from tests.streaming.feeder.live import captures

Talk = Callable[[socket.socket, socket.socket], object]
"""Lets a client, and a server that is passive otherwise, speak."""
SECONDS = 2.0


@contextlib.contextmanager
def talking(listener: socket.socket, talk: Talk) -> Iterator[int]:
    """Connect to a port again and again, and speak. Yields the port."""
    ended = threading.Event()

    def connect() -> None:
        while not ended.wait(0.1):
            with socket.create_connection(listener.getsockname()) as client, listener.accept()[0] as server:
                client.settimeout(0.1)
                with contextlib.suppress(OSError):
                    talk(client, server)

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


def begin_tls(client: socket.socket, _server: socket.socket) -> None:
    ssl.create_default_context().wrap_socket(client, server_hostname="broker")


@captures
def test_kafka_is_counted(listener: socket.socket) -> None:
    with talking(listener, lambda client, _: client.sendall(prefixed(metadata(1)))) as port:
        found = seen(port)
    assert (found.answer, "bytes of Kafka on lo" in found.detail) == (Answer.YES, True)


@captures
def test_tls_is_told(listener: socket.socket) -> None:
    with talking(listener, begin_tls) as port:
        found = seen(port)
    assert found.answer is Answer.NO
    assert found.detail.startswith("carries TLS: nothing is judged there")


@captures
def test_another_protocol_is_told(listener: socket.socket) -> None:
    with talking(listener, lambda client, _: client.sendall(b"GET / HTTP/1.1\r\n\r\n")) as port:
        found = seen(port)
    assert (found.answer, "not Kafka" in found.detail) == (Answer.NOTE, True)


@captures
def test_silence_is_told(listener: socket.socket) -> None:
    found = seen(listener.getsockname()[1])
    assert (found.answer, found.detail.startswith("nothing on lo in 2 s: ")) == (Answer.NOTE, True)


def encrypting(keys: Path, *, logs_keys: bool) -> Talk:
    """Return what lets both ends speak Kafka over TLS, on each connection with secrets of its own."""
    writers = (TlsWriter(*SUITES[3], seed=seed) for seed in count())

    def talk(client: socket.socket, server: socket.socket) -> None:
        writer = next(writers)
        if logs_keys:
            with keys.open("a") as log:
                log.write(writer.key_log)
        for direction, data in encrypted(exchanges(3), writer):
            sender, receiver = (client, server) if direction is TO_BROKER else (server, client)
            sender.sendall(data)
            receiver.recv(len(data), socket.MSG_WAITALL)

    return talk


@captures
@pytest.mark.parametrize("logs_keys", [True, False])
def test_tls_beside_a_key_log_is_read_or_told(
    listener: socket.socket, tmp_path: Path, logs_keys: bool
) -> None:
    keys = tmp_path / "keys"
    keys.touch(0o600)
    with talking(listener, encrypting(keys, logs_keys=logs_keys)) as port:
        configuration = Configuration(interface=["lo"], ports=[port], tls_keylog=[str(keys)])
        of_file, found = watched_ports(configuration, SECONDS)
    assert (of_file.answer, of_file.name) == (Answer.YES, f"key log {keys}")
    if logs_keys:
        assert (found.answer, "TLS connections read" in found.detail) == (Answer.YES, True)
    else:
        assert found.answer is Answer.NO
        assert found.detail.startswith("the key log has no secrets of TLS connections: ")


@captures
def test_a_missing_key_log_is_a_note(listener: socket.socket, tmp_path: Path) -> None:
    configuration = Configuration(
        interface=["lo"], ports=[listener.getsockname()[1]], tls_keylog=[str(tmp_path / "keys")]
    )
    of_file, _ = watched_ports(configuration, 0.1)
    assert (of_file.answer, "does not exist" in of_file.detail) == (Answer.NOTE, True)
