"""Servers on loopback, and TLS before the demo's listeners: a certificate, an endpoint, a key log."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import select
import socket
import socketserver
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from streaming.broker.ports import HOST, cannot_listen
from streaming.record.rewriting import Address
from streaming.settings.confidential import open_private

_CHUNK: Final = 1 << 16
_VALID: Final = datetime.timedelta(days=30)


class LoopbackServer:
    """Listens from its creation on. Serves each connection on a thread while its context is open."""

    def __init__(self, name: str, serve: Callable[[socket.socket], None], port: int = 0) -> None:
        """`serve` gets each accepted connection. `name` names the thread. Port 0 means any free port.

        Raises UserError if the port is taken.
        """

        class ConnectionHandler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                serve(self.request)

        class LoopbackTcpServer(socketserver.ThreadingTCPServer):
            allow_reuse_address = True
            daemon_threads = True

        try:
            self._server = LoopbackTcpServer((HOST, port), ConnectionHandler)
        except OSError as error:
            raise cannot_listen(port, error) from error
        self._thread = threading.Thread(target=self._server.serve_forever, name=name, daemon=True)

    @property
    def address(self) -> Address:
        """The address that clients connect to."""
        host, port = self._server.server_address[:2]
        return str(host), int(port)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class DemoTls:
    """Certificate, key log and contexts of both sides of TLS. Makes the files in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.certificate, self.key_log = folder / "demo.pem", folder / "demo.keys"
        key = folder / "demo-key.pem"
        open_private(self.key_log).close()
        certificate, private_key = _make_certificate()
        self.certificate.write_bytes(certificate)
        with open_private(key) as file:
            file.write(private_key)
        self.of_server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.of_server.load_cert_chain(self.certificate, key)
        self.of_server.keylog_filename = str(self.key_log)
        self.of_clients = ssl.create_default_context(cafile=str(self.certificate))

    @property
    def librdkafka_settings(self) -> dict[str, str]:
        """The settings of clients of librdkafka."""
        return {"security.protocol": "ssl", "ssl.ca.location": str(self.certificate)}


class TlsEndpoint(LoopbackServer):
    """Ends TLS on a port of loopback and forwards the plaintext to `target`. A context manager.

    As brokers do, it closes a connection right after the alert `close_notify`.
    """

    def __init__(self, tls: DemoTls, target: Address, port: int = 0) -> None:
        def serve(accepted: socket.socket) -> None:
            with contextlib.suppress(OSError):
                _serve(tls, accepted, target)

        super().__init__("tls-endpoint", serve, port)


def _serve(tls: DemoTls, accepted: socket.socket, target: Address) -> None:
    with (
        tls.of_server.wrap_socket(accepted, server_side=True) as client,
        socket.create_connection(target) as server,
    ):
        for connection in (client, server):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _forward(client, server)
        client.settimeout(0)
        # `unwrap` sends `close_notify`, then fails because the client has sent none.
        with contextlib.suppress(ssl.SSLError):
            client.unwrap()


def _forward(client: ssl.SSLSocket, server: socket.socket) -> None:
    """Forward both directions until either side ends."""
    while True:
        ready = [client] if client.pending() else select.select([client, server], [], [])[0]
        for source in ready:
            data = source.recv(_CHUNK)
            if not data:
                return
            (server if source is client else client).sendall(data)


def _make_certificate() -> tuple[bytes, bytes]:
    """Return a self-signed certificate for loopback, and its private key, in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "kipwatch demo")])
    now = datetime.datetime.now(datetime.UTC)
    hosts = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST))])
    built = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    built = built.not_valid_before(now - _VALID).not_valid_after(now + _VALID)
    certificate = built.add_extension(hosts, critical=False).sign(key, hashes.SHA256())
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    pem = serialization.Encoding.PEM
    return certificate.public_bytes(pem), key.private_bytes(pem, *form)
