"""A real client of today made one of KIP-1313: a relay before it lifts its requests to header v3.

The client uses the newest versions, whose bodies KIP-1313 leaves as they are: but for the header, and
the telemetry APIs, whose ID moves there. An older body is written anew in the fields that the newer
version has. Each client ID is taken for one client instance.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any

from decoders.codec.request import Request, read_request, write_request
from decoders.codec.response import read_response, write_response
from decoders.protocol import API_VERSIONS, SASL_HANDSHAKE
from decoders.schema.model import Struct
from decoders.schema.registry import Schemas
from expectations.conversation.texts import identifier_text
from streaming.demo.loopback import LoopbackServer
from streaming.probe.client import new_instance_id, read_frame
from streaming.record.rewriting import Address
from tests.mutations.script import prefixed


class LiftedConnection:
    """One connection of the client. One request is under way at a time."""

    def __init__(self, schemas: Schemas, upstream: socket.socket, instance_ids: dict[str, bytes]) -> None:
        self._schemas, self._upstream = schemas, upstream
        self._instance_ids = instance_ids
        self._instance_id = b""
        self._ranges = {API_VERSIONS: (0, schemas.by_key[API_VERSIONS].versions.highest)}
        self._requests = 0

    def respond(self, frame: bytes) -> bytes | None:
        """Return the response to a request, None if the broker closed or the request expects none."""
        request = read_request(self._schemas, frame)
        assert request.api is not None and request.body is not None
        self._requests += 1
        if self._requests == 1:
            self._instance_id = self._instance_ids.setdefault(request.client_id or "", new_instance_id())
        if not self._is_lifted(request):
            response = self._exchange(frame)
            if response is None or request.api.key != API_VERSIONS:
                return response
            return self._lower(request, response, request.api_version)
        response = self._exchange(self._lift(request))
        return None if response is None else self._lower(request, response, request.api.versions.highest)

    def _is_lifted(self, request: Request) -> bool:
        assert request.api is not None
        if request.api.key == SASL_HANDSHAKE or _is_nameless(request):
            return False
        lowest, highest = self._ranges.get(request.api.key, (0, -1))
        return lowest <= request.api.versions.highest <= highest

    def _lift(self, request: Request) -> bytes:
        api = request.api
        assert api is not None
        version = api.versions.highest
        body = _fitting(api.request.struct, version, request.body or {})
        client_id = request.client_id if self._requests == 1 else None
        correlation_id = request.correlation_id or 0
        return write_request(
            self._schemas, api.key, version, correlation_id, client_id, body, self._instance_id
        )

    def _lower(self, request: Request, response: bytes, response_version: int) -> bytes:
        api, version = request.api, request.api_version or 0
        assert api is not None
        body = read_response(self._schemas, response, api.key, response_version).body
        assert body is not None
        lowered = _fitting(api.response.struct, version, body)
        if api.key == API_VERSIONS:
            self._ranges |= {e["apiKey"]: (e["minVersion"], e["maxVersion"]) for e in body["apiKeys"]}
            lowered["apiKeys"] = [self._released(entry) for entry in body["apiKeys"]]
        if api.name == "GetTelemetrySubscriptions":
            lowered["clientInstanceId"] = identifier_text(self._instance_id)
        return write_response(self._schemas, api.key, version, request.correlation_id or 0, lowered)

    def _released(self, entry: Mapping[str, int]) -> dict[str, int]:
        api = self._schemas.api(entry["apiKey"])
        is_overlay = api is not None and api.is_overlay(entry["maxVersion"])
        return {**entry, "maxVersion": entry["maxVersion"] - is_overlay}

    def _exchange(self, frame: bytes) -> bytes | None:
        self._upstream.sendall(prefixed(frame))
        return read_frame(self._upstream)


def _is_nameless(request: Request) -> bool:
    """Whether it is the ApiVersions that comes before SASL: newer versions name the software."""
    return request.api_key == API_VERSIONS and "clientSoftwareName" not in (request.body or {})


def _fitting(struct: Struct, version: int, body: Mapping[str, Any]) -> dict[str, Any]:
    """Keep of a body what another version has a field for."""
    kept: dict[str, Any] = {}
    for field in struct.fields:
        if field.name not in body or version not in field.versions:
            continue
        value = body[field.name]
        if field.struct is not None and isinstance(value, list):
            value = [_fitting(field.struct, version, item) for item in value]
        elif field.struct is not None and value is not None:
            value = _fitting(field.struct, version, value)
        kept[field.name] = value
    return kept


class LiftedClients(LoopbackServer):
    """Listens for real clients and goes on as new ones. A context manager."""

    def __init__(self, schemas: Schemas, port: int, upstream: Address) -> None:
        instance_ids: dict[str, bytes] = {}

        def serve(client: socket.socket) -> None:
            with socket.create_connection(upstream) as broker:
                connection = LiftedConnection(schemas, broker, instance_ids)
                while (frame := read_frame(client)) and (response := connection.respond(frame)):
                    client.sendall(prefixed(response))

        super().__init__("lifted-clients", serve, port)
