"""The front: a proxy that adds KIP-1313 to a real broker.

No released broker reads header v3. The front lifts the version ranges that the broker advertises, enforces
the KIP's rules on each connection, lowers the requests that conform, and lifts their responses. Requests
with older headers are forwarded unchanged if the broker supports their versions.
"""

from __future__ import annotations

import socket
import struct

from decoders.codec.request import Request, read_request
from decoders.codec.response import read_response
from decoders.protocol import API_VERSIONS, SASL_HANDSHAKE
from decoders.schema.model import HIGHEST_VERSION
from decoders.schema.registry import Schemas
from streaming.demo.faults import altered
from streaming.demo.instance_client import read_frame
from streaming.demo.lifting import (
    CannotLiftError,
    is_lifted,
    lift_advertisement,
    lift_response,
    lower_request,
    lowered_version,
    refusal,
)
from streaming.demo.loopback_server import Address, LoopbackServer

UPSTREAM_SECONDS = 60.0
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
        self._highest: dict[int, int] = {}

    def respond(self, frame: bytes) -> bytes | None:
        """Return the response to a request; None closes the connection, as for an unreadable one."""
        request = read_request(self._schemas, frame)
        self._requests += 1
        if self._requests == 1:
            self._client_id = request.client_id
        response = self._respond(request, frame)
        if response is not None:
            response = altered(self._schemas, self._client_id, request, response)
            self._ranges |= self._ranges_in(request, request.api_version, response)
        return response

    def _respond(self, request: Request, frame: bytes) -> bytes | None:
        if not request.known:
            return self._forward_unchanged(request, frame)
        if not self._is_advertised(request):
            return None
        if self._breaks_instance_id(request):
            return refusal(self._schemas, request)
        if is_lifted(request) or not self._is_known_to_broker(request):
            return None if request.failure is not None else self._lower_and_lift(request)
        return self._forward_unchanged(request, frame)

    def _breaks_instance_id(self, request: Request) -> bool:
        """Whether the ID differs from that of the first request (KIP-1313, Client Instance ID)."""
        if request.api_key == SASL_HANDSHAKE:
            return False
        instance_id = request.client_instance_id
        if self._requests == 1 and instance_id and any(instance_id):
            self._instance_id = instance_id
        return self._instance_id is not None and instance_id != self._instance_id

    def _is_advertised(self, request: Request) -> bool:
        """Whether the client was offered the version. ApiVersions may have any."""
        lowest, highest = self._ranges.get(request.api_key, (0, HIGHEST_VERSION))
        return request.api_key == API_VERSIONS or lowest <= request.api_version <= highest

    def _is_known_to_broker(self, request: Request) -> bool:
        """Whether the broker has the version. It refuses an unstable one, which the front offers."""
        highest = self._highest.get(request.api_key, HIGHEST_VERSION)
        return request.api_key == API_VERSIONS or request.api_version <= highest

    def _lower_and_lift(self, request: Request) -> bytes | None:
        version = lowered_version(request, self._highest.get(request.api_key))
        response = self._forward(lower_request(self._schemas, request, self._client_id, version))
        if response is None:
            return None
        self._note_highest(request, version, response)
        return lift_response(self._schemas, request, response, version)

    def _forward_unchanged(self, request: Request, frame: bytes) -> bytes | None:
        response = self._forward(frame)
        if response is None or request.api_key != API_VERSIONS:
            return response
        self._note_highest(request, request.api_version, response)
        return lift_advertisement(self._schemas, request.api_version, response)

    def _note_highest(self, request: Request, version: int, response: bytes) -> None:
        """Note the highest versions that the broker itself advertises."""
        ranges = self._ranges_in(request, version, response)
        self._highest |= {key: highest for key, (_, highest) in ranges.items()}

    def _ranges_in(self, request: Request, version: int, response: bytes) -> dict[int, tuple[int, int]]:
        """Return the ranges in the response to ApiVersions of a version; empty for any other API."""
        if request.api_key != API_VERSIONS:
            return {}
        body = read_response(self._schemas, response, API_VERSIONS, version).body or {}
        return {
            entry["apiKey"]: (entry["minVersion"], entry["maxVersion"]) for entry in body.get("apiKeys", ())
        }

    def _forward(self, frame: bytes) -> bytes | None:
        self._upstream.sendall(_LENGTH.pack(len(frame)) + frame)
        return read_frame(self._upstream)


class Front(LoopbackServer):
    """The listener of the front. A context manager."""

    def __init__(self, schemas: Schemas, upstream: Address, port: int = 0) -> None:
        """Listen on loopback; port 0 means any free one. `upstream` is a listener that is not watched."""
        super().__init__("front", lambda client: _serve(schemas, client, upstream), port)


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
