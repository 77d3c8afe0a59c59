"""Lowers KIP-1313 requests to versions that a released broker knows, and lifts its responses.

A request with header v3 is lowered to the newest version that the broker supports: the previous one or, if
that is unstable, the one before. Its response is lifted. Both are decoded and encoded again, since KIP-1313
changes the bodies of OffsetDelete, GetTelemetrySubscriptions and PushTelemetry.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from decoders.codec.failure import EncodeError
from decoders.codec.request import Request, write_request
from decoders.codec.response import read_response, write_response
from decoders.protocol import API_VERSIONS, INVALID_REQUEST
from decoders.schema.model import Field
from decoders.schema.registry import Api, Schemas
from expectations.conversation.identifier import identifier_text

_TELEMETRY = ("GetTelemetrySubscriptions", "PushTelemetry")


class CannotLiftError(ValueError):
    """The broker's response cannot be decoded, or its newest version cannot carry the request."""


def is_lifted(request: Request) -> bool:
    """Whether a request has header v3, which no released broker reads."""
    return request.header_version == 3


def lowered_version(request: Request, highest: int | None) -> int:
    """Return the version to send to the broker, whose highest one is `highest`, None if not known."""
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
    """Encode the broker's response to a request that was lowered to a version as a response to the request.

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
    """Raise the highest version of each API to the one on header v3, if the broker has the newest version.

    An unstable version does not count as the newest, since brokers do not advertise it.

    The telemetry APIs are added: a broker without an exporter of metrics supports them without advertising
    them.
    """
    entries = advertisement["apiKeys"]
    for entry in entries:
        api = schemas.api(entry["apiKey"])
        if api is not None and _has_newest(api, entry["maxVersion"]):
            entry["maxVersion"] = max(entry["maxVersion"], api.versions.highest)
    if not advertisement["errorCode"]:
        entries.extend(_telemetry_ranges(schemas, listed={entry["apiKey"] for entry in entries}))


def _has_newest(api: Api, highest: int) -> bool:
    """Whether a broker's highest version of an API is the newest stable one, and header v3 comes after it."""
    if api.release_versions is None or not api.is_overlay(api.versions.highest):
        return False
    return highest >= api.release_versions.highest - (api.unstable_version is not None)


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
