"""The front: a proxy that adds KIP-1313 to a real broker.

No released broker reads header v3. The front lifts the version ranges that the broker advertises, enforces
the KIP's rules on each connection, lowers the requests that conform, and lifts their responses. Requests
with older headers are forwarded unchanged.
"""

from __future__ import annotations

import socket
import socketserver
import struct
import threading
from types import TracebackType

from decoders.codec.request import Request, read_request
from decoders.codec.response import read_response
from decoders.protocol import API_VERSIONS, SASL_HANDSHAKE
from decoders.schema.registry import Schemas
from streaming.demo.faults import altered
from streaming.demo.instance_client import read_frame
from streaming.demo.lifting import (
    CannotLiftError,
    is_lifted,
    lift_advertisement,
    lift_response,
    lower_request,
    refusal,
)

Address = tuple[str, int]
UPSTREAM_SECONDS = 30.0
_LENGTH = struct.Struct(">i")


class FrontConnection:
    """One client's connection through the front to the broker, with one request in flight at a time."""

    def __init__(self, schemas: Schemas, upstream: socket.socket) -> None:
        self._schemas = schemas
        self._upstream = upstream
        self._requests = 0
        self._client_id: str | None = None
        self._instance_id: bytes | None = None
        self._ranges: dict[int, tuple[int, int]] = {}

    def respond(self, frame: bytes) -> bytes | None:
        """Return the response to a request; None closes the connection, as for an unreadable one."""
        request = read_request(self._schemas, frame)
        self._requests += 1
        if self._requests == 1:
            self._client_id = request.client_id
        response = self._respond(request, frame)
        return response and altered(self._schemas, self._client_id, request, response)

    def _respond(self, request: Request, frame: bytes) -> bytes | None:
        if not is_lifted(request):
            return self._forward_unchanged(request, frame)
        if request.failure is not None or not self._is_advertised(request):
            return None
        if self._breaks_instance_id(request):
            return refusal(self._schemas, request)
        return self._lower_and_lift(request)

    def _breaks_instance_id(self, request: Request) -> bool:
        """Whether the ID differs from that of the first request (KIP-1313, Client Instance ID)."""
        instance_id = request.client_instance_id
        if self._requests == 1 and instance_id and any(instance_id):
            self._instance_id = instance_id
        return self._instance_id is not None and instance_id != self._instance_id

    def _is_advertised(self, request: Request) -> bool:
        """Whether the broker reads the version: ApiVersions always, others within the advertised range."""
        lowest, highest = self._ranges.get(request.api_key or 0, (0, 0x7FFF))
        return request.api_key == API_VERSIONS or lowest <= (request.api_version or 0) <= highest

    def _lower_and_lift(self, request: Request) -> bytes | None:
        response = self._forward(lower_request(self._schemas, request, self._client_id))
        if response is None:
            return None
        lifted = lift_response(self._schemas, request, response)
        if request.api_key == API_VERSIONS:
            self._note_ranges(request.api_version or 0, lifted)
        return lifted

    def _forward_unchanged(self, request: Request, frame: bytes) -> bytes | None:
        if self._instance_id is not None and request.api_key != SASL_HANDSHAKE and request.known:
            return refusal(self._schemas, request)
        response = self._forward(frame)
        if response is None or request.api_key != API_VERSIONS:
            return response
        lifted = lift_advertisement(self._schemas, request.api_version or 0, response)
        self._note_ranges(request.api_version or 0, lifted)
        return lifted

    def _note_ranges(self, api_version: int, response: bytes) -> None:
        body = read_response(self._schemas, response, API_VERSIONS, api_version).body or {}
        for entry in body.get("apiKeys", ()):
            self._ranges[entry["apiKey"]] = (entry["minVersion"], entry["maxVersion"])

    def _forward(self, frame: bytes) -> bytes | None:
        self._upstream.sendall(_LENGTH.pack(len(frame)) + frame)
        return read_frame(self._upstream)


class Front:
    """The listener of the front, with a thread per connection. A context manager."""

    def __init__(self, schemas: Schemas, upstream: Address, port: int = 0) -> None:
        """Listen on loopback; port 0 means any free one. `upstream` is a listener that is not watched."""

        class FrontHandler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                _serve(schemas, self.request, upstream)

        class FrontServer(socketserver.ThreadingTCPServer):
            allow_reuse_address = True
            daemon_threads = True

        self._server = FrontServer(("127.0.0.1", port), FrontHandler)
        self._thread = threading.Thread(target=self._server.serve_forever, name="front", daemon=True)

    @property
    def address(self) -> Address:
        """The address that clients connect to."""
        host, port = self._server.server_address[:2]
        return str(host), int(port)

    def __enter__(self) -> Front:
        self._thread.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


def _serve(schemas: Schemas, client: socket.socket, upstream: Address) -> None:
    with socket.create_connection(upstream, timeout=UPSTREAM_SECONDS) as broker:
        connection = FrontConnection(schemas, broker)
        while frame := read_frame(client):
            try:
                response = connection.respond(frame)
            except CannotLiftError:
                return
            if response is None:
                return
            client.sendall(_LENGTH.pack(len(response)) + response)
