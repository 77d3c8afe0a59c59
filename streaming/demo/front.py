"""The front: a proxy that adds KIP-1313 to a real broker.

No released broker reads header v3. The front lifts the version ranges that the broker advertises, enforces
the KIP's rules on each connection, lowers the requests that conform, and lifts their responses. Requests with
older headers are forwarded unchanged if the broker supports their versions.

A request with header v3 is lowered to the newest version that the broker supports: the previous one or, if
that is unstable, the one before. Request and response are decoded and encoded again, since KIP-1313 changes
the bodies of OffsetDelete, GetTelemetrySubscriptions and PushTelemetry.

Some client IDs request a fault: the front then alters responses, to simulate faults and an upgrade of the
broker.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from decoders.codec.failure import EncodeError
from decoders.codec.request import Request, read_request, write_request
from decoders.codec.response import read_response, write_response
from decoders.protocol import API_VERSIONS, INVALID_REQUEST, SASL_HANDSHAKE
from decoders.schema.model import HIGHEST_VERSION, Field
from decoders.schema.registry import Api, Schemas
from expectations.conversation.texts import identifier_text
from streaming.demo.loopback import LoopbackServer
from streaming.demo.workload import new_member_id
from streaming.probe.client import read_frame, send_frame
from streaming.record.rewriting import Address, Body

_TELEMETRY = ("GetTelemetrySubscriptions", "PushTelemetry")
RENAMING, INVERTING = "kipwatch-1313-renamed", "kipwatch-1313-inverted"
UPGRADED = "kipwatch-1313-upgraded"
FIND_COORDINATOR, LOWEST_LEFT = 10, 4
"""An API key, and the lowest version that an upgraded broker still has of it."""
UPSTREAM_SECONDS = 60.0


class CannotLiftError(ValueError):
    """The broker's response cannot be decoded, or its newest version cannot carry the request."""


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
        """Return the response to a request. None closes the connection, as after an unreadable request."""
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
        """Whether the version was advertised to the client. ApiVersions may have any version."""
        lowest, highest = self._ranges.get(request.api_key, (0, HIGHEST_VERSION))
        return request.api_key == API_VERSIONS or lowest <= request.api_version <= highest

    def _is_known_to_broker(self, request: Request) -> bool:
        """Whether the broker has the version. It lacks unstable versions, which the front advertises."""
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
        """Return the version ranges in a response to ApiVersions; empty for any other API."""
        if request.api_key != API_VERSIONS:
            return {}
        body = read_response(self._schemas, response, API_VERSIONS, version).body or {}
        return {
            entry["apiKey"]: (entry["minVersion"], entry["maxVersion"]) for entry in body.get("apiKeys", ())
        }

    def _forward(self, frame: bytes) -> bytes | None:
        send_frame(self._upstream, frame)
        return read_frame(self._upstream)


class Front(LoopbackServer):
    """The listener of the front. A context manager."""

    def __init__(self, schemas: Schemas, upstream: Address) -> None:
        """Listen on any port of loopback. `upstream` is a listener that is not watched."""
        super().__init__("front", lambda client: _serve(schemas, client, upstream))


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
            send_frame(client, response)


def is_lifted(request: Request) -> bool:
    """Whether a request has header v3, which no released broker reads."""
    return request.header_version == 3


def lowered_version(request: Request, highest: int | None) -> int:
    """Return the version to send to the broker. `highest` is the highest that it has, None if unknown."""
    version = request.api_version - is_lifted(request)
    return version if highest is None else min(version, highest)


def lower_request(schemas: Schemas, request: Request, client_id: str | None, version: int) -> bytes:
    """Encode a request as a lower version, with the connection's client ID.

    Raises CannotLiftError if that version has no field for something in the request.
    """
    body = dict(request.body or {})
    if _api(request).name in _TELEMETRY:
        body["clientInstanceId"] = identifier_text(request.client_instance_id or bytes(16))
    try:
        return write_request(
            schemas, _api(request).key, version, _number(request.correlation_id), client_id, body
        )
    except EncodeError as error:
        raise CannotLiftError(f"{_api(request).name} v{version} cannot carry the request: {error}") from error


def lift_response(schemas: Schemas, request: Request, frame: bytes, lowered: int) -> bytes:
    """Encode the broker's response to the `lowered` version of a request as a response to the request.

    Raises CannotLiftError if the response cannot be decoded.
    """
    api, version = _api(request), _number(request.api_version)
    response = read_response(schemas, frame, api.key, lowered)
    if response.body is None:
        raise CannotLiftError(f"the response to {api.name} v{lowered} cannot be read: {response.failure}")
    body = dict(response.body)
    if api.name in _TELEMETRY:
        body.pop("clientInstanceId", None)
    if api.key == API_VERSIONS:
        lift_ranges(schemas, body)
    return write_response(schemas, api.key, version, _number(request.correlation_id), body)


def lift_advertisement(schemas: Schemas, api_version: int, frame: bytes) -> bytes:
    """Lift the ranges in the response to an ApiVersions request with an older header."""
    response = read_response(schemas, frame, API_VERSIONS, api_version)
    if response.body is None or response.body_version is None or response.correlation_id is None:
        raise CannotLiftError(
            f"the response to ApiVersions v{api_version} cannot be read: {response.failure}"
        )
    body = dict(response.body)
    lift_ranges(schemas, body)
    return write_response(schemas, API_VERSIONS, response.body_version, response.correlation_id, body)


def lift_ranges(schemas: Schemas, advertisement: dict[str, Any]) -> None:
    """Raise the highest version of each API to the one with header v3, if the broker has the newest version.

    An unstable version does not count as the newest, since brokers do not advertise it. The telemetry APIs
    are added, because a broker without an exporter of metrics supports them without advertising them.
    """
    entries = advertisement["apiKeys"]
    for entry in entries:
        api = schemas.api(entry["apiKey"])
        if api is not None and _has_newest(api, entry["maxVersion"]):
            entry["maxVersion"] = max(entry["maxVersion"], api.versions.highest)
    if not advertisement["errorCode"]:
        entries.extend(_telemetry_ranges(schemas, listed={entry["apiKey"] for entry in entries}))


def _has_newest(api: Api, highest: int) -> bool:
    """Whether `highest` is the newest stable version of an API, and header v3 comes after it."""
    if api.release_versions is None or not api.is_overlay(api.versions.highest):
        return False
    return highest >= api.release_versions.highest - (api.unstable_version is not None)


def _telemetry_ranges(schemas: Schemas, listed: set[int]) -> Iterator[dict[str, int]]:
    for api in map(schemas.api_named, _TELEMETRY):
        if api is not None and api.key not in listed:
            versions = {"minVersion": api.versions.lowest, "maxVersion": api.versions.highest}
            yield {"apiKey": api.key, **versions}


def refusal(schemas: Schemas, request: Request) -> bytes | None:
    """Return an INVALID_REQUEST response, None if the response has no error field of its own."""
    api, version = _api(request), _number(request.api_version)
    refused = {"errorCode": INVALID_REQUEST}
    if not any(_is_error_code(field, version) for field in api.response.struct.fields):
        return None
    return write_response(schemas, api.key, version, _number(request.correlation_id), refused)


def _is_error_code(field: Field, version: int) -> bool:
    return field.name == "errorCode" and version in field.versions


def _api(request: Request) -> Api:
    if request.api is None:
        raise ValueError("the request is of no known API")
    return request.api


def _number(value: int | None) -> int:
    if value is None:
        raise ValueError("the request's header was not read")
    return value


def _rename(body: Body) -> Body:
    """Return another member ID than the client's own."""
    return {**body, "memberId": new_member_id()}


def _invert(body: Body) -> Body:
    """Advertise a lowest version above the highest for the last API, which no client uses."""
    *others, last = body["apiKeys"]
    return {**body, "apiKeys": [*others, {**last, "minVersion": last["maxVersion"] + 1}]}


def _upgrade(body: Body) -> Body:
    """Advertise a higher lowest version of FindCoordinator, as after an upgrade that removes versions."""
    entries = [
        {**entry, "minVersion": LOWEST_LEFT} if entry["apiKey"] == FIND_COORDINATOR else entry
        for entry in body["apiKeys"]
    ]
    return {**body, "apiKeys": entries}


_FAULTS: Mapping[tuple[str, str], Callable[[Body], Body]] = {
    (RENAMING, "ConsumerGroupHeartbeat"): _rename,
    (INVERTING, "ApiVersions"): _invert,
    (UPGRADED, "ApiVersions"): _upgrade,
}
"""The faults by client ID and by the API whose response is altered."""


def altered(schemas: Schemas, client_id: str | None, request: Request, response: bytes) -> bytes:
    """Return the broker's response, altered if the client ID requests a fault of this API."""
    fault = _FAULTS.get((client_id or "", request.api.name)) if request.api else None
    if fault is None or request.api is None:
        return response
    key, version, number = request.api.key, request.api_version, request.correlation_id or 0
    body = read_response(schemas, response, key, version).body or {}
    return write_response(schemas, key, version, number, fault(body))
