"""The demo's TLS: what the endpoint forwards, how it closes, and that its key log opens what was captured."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from decoders.tls.key_log import KeyLog
from streaming.demo.loopback import DemoTls, LoopbackServer, TlsEndpoint
from streaming.user_error import UserError


@pytest.fixture
def tls(tmp_path: Path) -> DemoTls:
    return DemoTls(tmp_path)


@pytest.fixture
def echo() -> Iterator[tuple[str, int]]:
    """A server that sends back what it receives, and closes after `bye`."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer, args=(listener,))
        thread.start()
        host, port = listener.getsockname()
        yield host, port
        thread.join()


def answer(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection:
        while data := connection.recv(1 << 16):
            connection.sendall(data)
            if data == b"bye":
                return


def connected(tls: DemoTls, endpoint: TlsEndpoint) -> ssl.SSLSocket:
    plain = socket.create_connection(endpoint.address, 10)
    return tls.of_clients.wrap_socket(plain, server_hostname="127.0.0.1", suppress_ragged_eofs=False)


def test_bytes_pass_and_the_end_of_the_target_ends_the_connection(
    tls: DemoTls, echo: tuple[str, int]
) -> None:
    with TlsEndpoint(tls, echo) as endpoint, connected(tls, endpoint) as client:
        for _ in range(20):
            client.sendall(bytes(10_000))
            received = 0
            # One thread sends and receives: an SSLSocket of Python 3.11 does not bear two at once.
            while received < 10_000:
                received += len(client.recv(1 << 16))
        client.sendall(b"bye")
        assert client.recv(10) == b"bye"
        # The alert comes first, or this would raise.
        assert client.recv(10) == b""


def test_the_key_log_has_the_secrets_and_is_for_its_owner_only(tls: DemoTls, echo: tuple[str, int]) -> None:
    with TlsEndpoint(tls, echo) as endpoint, connected(tls, endpoint) as client:
        client.sendall(b"bye")
        assert client.recv(10) == b"bye"
    key_log = KeyLog()
    key_log.add(tls.key_log.read_bytes())
    assert (len(key_log), key_log.broken_lines) == (1, 0)
    assert tls.key_log.stat().st_mode & 0o077 == 0


def test_a_taken_port_is_one_clear_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(UserError, match=f"cannot listen on port {port}: Address already in use"):
            LoopbackServer("late", socket.socket.close, port)
