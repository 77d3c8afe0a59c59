"""Lowers KIP-1313 requests to versions that a released broker knows, and lifts its responses.

A request with header v3 is lowered to the previous version, the newest that the broker knows; its response is
lifted. Both are decoded and encoded again, since KIP-1313 changes the bodies of OffsetDelete,
GetTelemetrySubscriptions and PushTelemetry.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from decoders.codec.request import Request, write_request
from decoders.codec.response import read_response, write_response
from decoders.protocol import API_VERSIONS, INVALID_REQUEST
from decoders.schema.model import Field
from decoders.schema.registry import Api, Schemas
from expectations.conversation.identifier import identifier_text

_TELEMETRY = ("GetTelemetrySubscriptions", "PushTelemetry")


class CannotLiftError(ValueError):
    """The broker's response cannot be decoded, so it cannot be lifted."""


def is_lifted(request: Request) -> bool:
    """Whether a request has header v3, which no released broker reads."""
    return request.header_version == 3


def lower_request(schemas: Schemas, request: Request, client_id: str | None) -> bytes:
    """Encode a request with header v3 as the previous version, with the connection's client ID."""
    body = dict(request.body or {})
    if _api(request).name in _TELEMETRY:
        body["clientInstanceId"] = identifier_text(request.client_instance_id or bytes(16))
    return write_request(
        schemas,
        _api(request).key,
        _number(request.api_version) - 1,
        _number(request.correlation_id),
        client_id,
        body,
    )


def lift_response(schemas: Schemas, request: Request, frame: bytes) -> bytes:
    """Encode the broker's response to a lowered request as a response to the request itself.

    Raises CannotLiftError if the response cannot be decoded.
    """
    api, version = _api(request), _number(request.api_version)
    response = read_response(schemas, frame, api.key, version - 1)
    if response.body is None:
        raise CannotLiftError(f"the response to {api.name} v{version - 1} cannot be read: {response.failure}")
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
    """Raise the highest version of each API by one if that version uses header v3.

    The telemetry APIs are added: a broker without an exporter of metrics supports them without advertising
    them.
    """
    entries = advertisement["apiKeys"]
    for entry in entries:
        api = schemas.api(entry["apiKey"])
        if api is not None and api.is_overlay(entry["maxVersion"] + 1):
            entry["maxVersion"] += 1
    if not advertisement["errorCode"]:
        entries.extend(_telemetry_ranges(schemas, listed={entry["apiKey"] for entry in entries}))


def _telemetry_ranges(schemas: Schemas, listed: set[int]) -> Iterator[dict[str, int]]:
    for api in map(schemas.api_named, _TELEMETRY):
        if api is not None and api.key not in listed:
            versions = {"minVersion": api.versions.lowest, "maxVersion": api.versions.highest}
            yield {"apiKey": api.key, **versions}


def refusal(schemas: Schemas, request: Request) -> bytes | None:
    """Return an INVALID_REQUEST response; None if the response has no error field of its own."""
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
