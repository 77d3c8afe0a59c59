"""A client that sends any request, with header v3 where its version has that, and some usual requests.

By default it gives a client instance ID in each header v3, and the client ID in the first request only.
Callers can override both, so that it can also break the rules.
"""

from __future__ import annotations

import secrets
import socket
import ssl
import struct
import time
from collections.abc import Callable, Container
from contextlib import ExitStack, suppress
from typing import Any, Self

from decoders.codec.request import write_request
from decoders.codec.response import read_response
from decoders.protocol import NAMES_SOFTWARE_FROM
from decoders.schema.registry import Api, Schemas
from streaming.broker.ports import HOST

TIMEOUT = 60.0
"""Seconds to wait for a response. On an idle machine it takes milliseconds."""
NEWEST_API_VERSIONS = 5
SOFTWARE = {"clientSoftwareName": "kipwatch-probe", "clientSoftwareVersion": "1"}
TOPIC = GROUP = "kipwatch-probe"
JOIN, LEAVE = 0, -1
ATTEMPTS, RETRY = 60, 0.25
"""How often to ask for a coordinator, and the seconds between two attempts."""
HEARTBEATS = (
    ("ConsumerGroupHeartbeat", 1),
    ("ShareGroupHeartbeat", 1),
    ("StreamsGroupHeartbeat", 0),
    ("StreamsGroupHeartbeat", 1),
)
"""The heartbeats in which a client must name its member."""
_LENGTH = struct.Struct(">i")


class Unset:
    """The type of UNSET, which stands for a value that the client chooses itself."""


UNSET = Unset()


class ConnectionClosedError(ConnectionError):
    """The broker closed the connection instead of responding."""


def new_instance_id() -> bytes:
    """Make a client instance ID.

    Its first byte is not zero: otherwise GetTelemetrySubscriptions v1 can be read as version 0, too, and a
    capture does not show which version it is.
    """
    return bytes([secrets.randbelow(255) + 1]) + secrets.token_bytes(15)


class InstanceClient:
    """One connection of a client with an instance ID. A context manager."""

    def __init__(
        self,
        schemas: Schemas,
        address: tuple[str, int],
        client_id: str,
        instance_id: bytes,
        host: str = HOST,
        *,
        tls: ssl.SSLContext | None = None,
        patience: float = TIMEOUT,
        used_ports: Container[int] = (),
    ) -> None:
        """Connect from the address `host`, "" for any; with TLS if `tls` is given. Raises OSError.

        `patience` is the most seconds to wait for the connection, and for bytes of a response. None of the
        `used_ports` is taken again.
        """
        self._schemas = schemas
        self._server = address
        self._host = host
        self._client_id = client_id
        self.instance_id = instance_id
        self._correlation_id = 0
        self._tls = tls
        with ExitStack() as refused:
            while True:
                self._socket = socket.create_connection(address, patience, source_address=(host, 0))
                if self.port not in used_ports:
                    break
                # As long as it is open, the next one has another port.
                refused.enter_context(self._socket)
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname=address[0])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def another_connection(self) -> InstanceClient:
        """Connect to the same server again, with the same IDs."""
        return InstanceClient(
            self._schemas, self._server, self._client_id, self.instance_id, self._host, tls=self._tls
        )

    @property
    def address(self) -> str:
        """The client's address and port, as findings have it."""
        host, port = self._socket.getsockname()[:2]
        return f"{host}:{port}"

    @property
    def port(self) -> int:
        """The client's port."""
        port: int = self._socket.getsockname()[1]
        return port

    def newest(self, api: str) -> int:
        """The newest version of an API, which uses header v3."""
        return self._api(api).versions.highest

    def key(self, api: str) -> int:
        return self._api(api).key

    def request(
        self,
        api: str,
        body: dict[str, Any],
        *,
        version: int | None = None,
        client_id: str | Unset | None = UNSET,
        instance_id: bytes | Unset = UNSET,
    ) -> dict[str, Any]:
        """Send a request and return the body of its response.

        By default it uses the newest version and the client's own instance ID, and sends the client ID in the
        first request and in those with an older header. Raises ConnectionClosedError.
        """
        chosen = self.newest(api) if version is None else version
        frame = self.frame(api, chosen, body, client_id, instance_id)
        return self.exchange(frame, api, chosen)

    def exchange(self, frame: bytes, api: str, version: int) -> dict[str, Any]:
        """Send a frame and return the body of its response. Raises ConnectionClosedError."""
        self.send(frame)
        response = self.receive()
        if response is None:
            raise ConnectionClosedError(f"the connection was closed after {api} v{version}")
        return read_response(self._schemas, response, self.key(api), version).body or {}

    def send(self, frame: bytes) -> None:
        """Send a frame without reading the response."""
        send_frame(self._socket, frame)

    def receive(self) -> bytes | None:
        """Read the next response. None if the broker has closed the connection."""
        return read_frame(self._socket)

    def frame(
        self,
        api: str,
        version: int,
        body: dict[str, Any],
        client_id: str | Unset | None = UNSET,
        instance_id: bytes | Unset = UNSET,
    ) -> bytes:
        """Encode a request with the next correlation ID, without sending it."""
        self._correlation_id += 1
        uses_header_v3 = self._api(api).request_header_version(version) == 3
        if isinstance(client_id, Unset):
            client_id = None if uses_header_v3 and self._correlation_id > 1 else self._client_id
        if isinstance(instance_id, Unset):
            instance_id = self.instance_id
        return write_request(
            self._schemas,
            api,
            version,
            self._correlation_id,
            client_id,
            body,
            client_instance_id=instance_id if uses_header_v3 else None,
        )

    def _api(self, name: str) -> Api:
        api = self._schemas.api_named(name)
        if api is None:
            raise ValueError(f"the schemas have no API {name}")
        return api


def send_frame(connection: socket.socket, frame: bytes) -> None:
    """Send one length-prefixed frame."""
    connection.sendall(_LENGTH.pack(len(frame)) + frame)


def read_frame(connection: socket.socket) -> bytes | None:
    """Read one length-prefixed frame. None if the peer has closed the connection."""
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


def negotiate(client: InstanceClient, version: int = NEWEST_API_VERSIONS, **claims: Any) -> dict[str, Any]:
    """Send ApiVersions, with fields of the body where they differ from the usual ones."""
    software = SOFTWARE if version >= NAMES_SOFTWARE_FROM else {}
    return client.request("ApiVersions", software | claims, version=version)


def send(client: InstanceClient, api: str, version: int, **body: Any) -> None:
    """Send a request after which the broker may close."""
    with suppress(ConnectionClosedError):
        client.request(api, body, version=version)


def send_null(client: InstanceClient, api: str, version: int, text: str, **body: Any) -> None:
    """Send a request with null for a compact string that must not be null."""
    frame = client.frame(api, version, body)
    with suppress(ConnectionClosedError):
        client.exchange(frame.replace(bytes([len(text) + 1]) + text.encode(), b"\0"), api, version)


def beat(
    client: InstanceClient, member_id: str, epoch: int, api: str = "ConsumerGroupHeartbeat", version: int = 1
) -> dict[str, Any]:
    """Send a heartbeat that joins (epoch JOIN), stays in or leaves (LEAVE) a group of the API's kind."""
    return client.request(api, heartbeat_of(member_id, epoch, api), version=version)


def heartbeat_of(member_id: str, epoch: int, api: str) -> dict[str, Any]:
    """Return the body of a heartbeat."""
    body: dict[str, Any] = {"groupId": f"{GROUP}-{api}", "memberId": member_id, "memberEpoch": epoch}
    return body | _JOINS[api] if epoch == JOIN else body


_JOINS: dict[str, dict[str, Any]] = {
    "ConsumerGroupHeartbeat": {
        "rebalanceTimeoutMs": 45_000,
        "subscribedTopicNames": [TOPIC],
        "topicPartitions": [],
    },
    "ShareGroupHeartbeat": {"subscribedTopicNames": [TOPIC]},
    "StreamsGroupHeartbeat": {
        "rebalanceTimeoutMs": 45_000,
        "topology": {"epoch": 0, "subtopologies": []},
        "activeTasks": [],
        "standbyTasks": [],
        "warmupTasks": [],
        "processId": GROUP,
        "clientTags": [],
    },
}


def find_coordinator(client: InstanceClient, version: int) -> dict[str, Any]:
    """Ask who coordinates the group."""
    return client.request("FindCoordinator", {"keyType": 0, "coordinatorKeys": [GROUP]}, version=version)


def await_success(ask: Callable[[], int]) -> bool:
    """Ask until the error code is 0: a new broker makes a coordinator when it is first asked for one.

    Returns False after ATTEMPTS.
    """
    for _ in range(ATTEMPTS):
        if not ask():
            return True
        time.sleep(RETRY)
    return False
