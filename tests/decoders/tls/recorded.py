"""Real TLS connections of OpenSSL, recorded: the bytes of both directions, the key log and the plaintext."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from decoders.tls.key_log import KeyLog
from decoders.tls.records import RecordReader
from decoders.tls.session import Session, Side

WAIT: Final = 20
"""Seconds that anything may take."""


@dataclass
class Recording:
    """What passed on the wire, in order, and the plaintext of each side."""

    wire: list[tuple[Side, bytes]] = field(default_factory=list)
    plain: dict[Side, bytes] = field(default_factory=lambda: dict.fromkeys(Side, b""))
    key_log: str = ""

    def keys(self) -> KeyLog:
        """A key log with the secrets of this connection."""
        key_log = KeyLog()
        key_log.add(self.key_log)
        return key_log


def certificate(folder: Path) -> Path:
    """Make a key and a self-signed certificate of localhost, in one file."""
    path = folder / "server.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    command += ["-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-keyout", str(path), "-out", str(folder / "certificate.pem")]
    subprocess.run(command, check=True, capture_output=True, timeout=WAIT)
    path.write_text(path.read_text() + (folder / "certificate.pem").read_text())
    return path


def client_context(key_log: Path, version: ssl.TLSVersion, ciphers: str | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = context.maximum_version = version
    if ciphers:
        context.set_ciphers(ciphers)
    context.keylog_filename = str(key_log)
    return context


def server_context(pem: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    return context


class Peers:
    """A client and a server in this process, whose bytes are recorded as they pass from one to the other."""

    def __init__(
        self, client: ssl.SSLContext, server: ssl.SSLContext, session: ssl.SSLSession | None = None
    ) -> None:
        self.recording = Recording()
        # What each side reads, and what it writes.
        self._incoming = {side: ssl.MemoryBIO() for side in Side}
        self._outgoing = {side: ssl.MemoryBIO() for side in Side}
        ends = [(Side.CLIENT, client, False), (Side.SERVER, server, True)]
        self.ends = {
            side: context.wrap_bio(
                self._incoming[side],
                self._outgoing[side],
                server_side=is_server,
                session=None if is_server else session,
            )
            for side, context, is_server in ends
        }
        ready: set[Side] = set()
        while len(ready) < len(Side):
            for side in Side:
                try:
                    self.ends[side].do_handshake()
                    ready.add(side)
                except ssl.SSLWantReadError:
                    pass
                self._pass(side)

    def send(self, side: Side, data: bytes) -> None:
        """Send data from one side to the other."""
        self.ends[side].write(data)
        self.recording.plain[side] += data
        self._pass(side)
        other = Side(1 - side)
        received = b""
        while len(received) < len(data):
            received += self.ends[other].read(1 << 16)
        assert received == data

    def _pass(self, side: Side) -> None:
        data = self._outgoing[side].read()
        if data:
            self.recording.wire.append((side, data))
            self._incoming[Side(1 - side)].write(data)


@contextlib.contextmanager
def openssl_server(pem: Path, *options: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Start OpenSSL's test server, which sends what it reads on standard input. Yields it and its port."""
    command = ["openssl", "s_server", "-accept", "127.0.0.1:0", "-cert", str(pem), "-key", str(pem), *options]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as server:
        try:
            assert server.stdout is not None
            for line in server.stdout:
                if line.startswith(b"ACCEPT"):
                    yield server, int(line.rsplit(b":", 1)[1])
                    break
        finally:
            server.kill()


class RecordedClient:
    """A client over a socket, whose bytes are recorded."""

    def __init__(self, context: ssl.SSLContext, port: int) -> None:
        self.recording = Recording()
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.end = context.wrap_bio(self._incoming, self._outgoing)
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=WAIT)
        while True:
            try:
                self.end.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._exchange()
        self._flush()

    def send(self, data: bytes) -> None:
        self.end.write(data)
        self.recording.plain[Side.CLIENT] += data
        self._flush()

    def receive(self, size: int) -> None:
        """Receive so many bytes of plaintext."""
        got = b""
        while len(got) < size:
            try:
                got += self.end.read(1 << 16)
            except ssl.SSLWantReadError:
                self._exchange()
            self._flush()
        self.recording.plain[Side.SERVER] += got

    def receive_no_data(self) -> None:
        """Receive what has no plaintext, such as a KeyUpdate, and send the reply to it."""
        self._exchange()
        with contextlib.suppress(ssl.SSLWantReadError):
            raise AssertionError(self.end.read(1 << 16))
        self._flush()

    def close(self) -> None:
        self._socket.close()

    def _exchange(self) -> None:
        self._flush()
        data = self._socket.recv(1 << 16)
        assert data, "the server has closed"
        self.recording.wire.append((Side.SERVER, data))
        self._incoming.write(data)

    def _flush(self) -> None:
        data = self._outgoing.read()
        if data:
            self.recording.wire.append((Side.CLIENT, data))
            self._socket.sendall(data)


def decrypted(
    wire: Iterable[tuple[Side, bytes]], key_log: KeyLog, *, keeps_subject: bool = False
) -> tuple[dict[Side, bytes], Session]:
    """Decrypt what passed on the wire; all keys are known."""
    session, readers = Session(key_log, keeps_subject=keeps_subject), {side: RecordReader() for side in Side}
    plain = dict.fromkeys(Side, b"")
    for side, data in wire:
        readers[side].push(data)
        while (record := readers[side].next()) is not None:
            assert not session.awaits_key(side, record)
            readers[side].accept(record)
            content = session.read(side, record)
            assert record.fragment[content.begin :] != content.data or not content.data
            plain[side] += content.data
    return plain, session
