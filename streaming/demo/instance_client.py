"""A small client that speaks KIP-1313: header v3, a client instance ID, the client ID only once.

It sends what it is told to, so that it can also misbehave.
"""

from __future__ import annotations

import secrets
import socket
import struct
from types import TracebackType
from typing import Any

from decoders.codec.request import write_request
from decoders.codec.response import read_response
from decoders.schema.registry import Api, Schemas
from streaming.broker.ports import HOST

PATIENCE = 10.0
"""Seconds to wait for an answer."""
SOFTWARE = {"clientSoftwareName": "kipwatch-demo", "clientSoftwareVersion": "1.0"}
_LENGTH = struct.Struct(">i")


class Unset:
    """Stands for a value that the client chooses itself."""


UNSET = Unset()


class ConnectionClosedError(ConnectionError):
    """The broker closed the connection instead of answering."""


def new_instance_id() -> bytes:
    """Make a client instance ID.

    Its first byte is not zero: GetTelemetrySubscriptions v1 with such an ID reads as version 0, too, so
    that nobody who only listens can tell which it is.
    """
    return bytes([secrets.randbelow(255) + 1]) + secrets.token_bytes(15)


class InstanceClient:
    """One connection of a client with an instance ID, from one of this machine's loopback addresses.

    A context manager.
    """

    def __init__(
        self,
        schemas: Schemas,
        address: tuple[str, int],
        client_id: str,
        instance_id: bytes,
        host: str = HOST,
    ) -> None:
        self._schemas = schemas
        self._server = address
        self._host = host
        self._client_id = client_id
        self.instance_id = instance_id
        self._correlation_id = 0
        self._socket = socket.create_connection(address, PATIENCE, source_address=(host, 0))

    def __enter__(self) -> InstanceClient:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def beside(self) -> InstanceClient:
        """Connect to the same server again, under the same IDs."""
        return InstanceClient(self._schemas, self._server, self._client_id, self.instance_id, self._host)

    @property
    def address(self) -> str:
        """The client's own address and port, as findings name it."""
        host, port = self._socket.getsockname()
        return f"{host}:{port}"

    def newest(self, api: str) -> int:
        """The newest version of an API: the one on header v3."""
        return self._api(api).versions.highest

    def key(self, api: str) -> int:
        """An API's key."""
        return self._api(api).key

    def ask(
        self,
        api: str,
        body: dict[str, Any],
        *,
        version: int | None = None,
        client_id: str | Unset | None = UNSET,
        instance_id: bytes | Unset = UNSET,
    ) -> dict[str, Any]:
        """Send a request and wait for its answer's body.

        Without a version the newest is used, with the client's own instance ID, and with the client
        ID in the first request and in those on an older header only. Raises ConnectionClosedError.
        """
        chosen = self.newest(api) if version is None else version
        frame = self.frame(api, chosen, body, client_id, instance_id)
        return self.exchange(frame, api, chosen)

    def exchange(self, frame: bytes, api: str, version: int) -> dict[str, Any]:
        """Send a frame as it is and wait for its answer's body. Raises ConnectionClosedError."""
        self.send(frame)
        answer = read_frame(self._socket)
        if answer is None:
            raise ConnectionClosedError(f"the connection was closed after {api} v{version}")
        return read_response(self._schemas, answer, self.key(api), version).body or {}

    def send(self, frame: bytes) -> None:
        """Send a frame as it is and leave the answer where it is."""
        self._socket.sendall(_LENGTH.pack(len(frame)) + frame)

    def frame(
        self,
        api: str,
        version: int,
        body: dict[str, Any],
        client_id: str | Unset | None = UNSET,
        instance_id: bytes | Unset = UNSET,
    ) -> bytes:
        """Write a request, without sending it, with the next correlation ID."""
        self._correlation_id += 1
        on_header_v3 = self._api(api).request_header_version(version) == 3
        if isinstance(client_id, Unset):
            client_id = None if on_header_v3 and self._correlation_id > 1 else self._client_id
        if isinstance(instance_id, Unset):
            instance_id = self.instance_id
        return write_request(
            self._schemas,
            api,
            version,
            self._correlation_id,
            client_id,
            body,
            client_instance_id=instance_id if on_header_v3 else None,
        )

    def _api(self, name: str) -> Api:
        api = self._schemas.api_named(name)
        if api is None:
            raise ValueError(f"the schemas have no API {name}")
        return api


def read_frame(connection: socket.socket) -> bytes | None:
    """Read one length-prefixed frame; None when the peer closed the connection first."""
    prefix = _read_exactly(connection, _LENGTH.size)
    return None if prefix is None else _read_exactly(connection, _LENGTH.unpack(prefix)[0])


def _read_exactly(connection: socket.socket, size: int) -> bytes | None:
    received = bytearray()
    while len(received) < size:
        try:
            part = connection.recv(size - len(received))
        except ConnectionResetError:
            return None
        if not part:
            return None
        received += part
    return bytes(received)
