"""The front lowers requests, lifts responses, and simulates faults on request.

Requests and responses are those of every API of the KIP. A fault alters one response to a client that
requests it, and nothing else.
"""

from __future__ import annotations

from typing import Any

import pytest

from decoders.codec.request import Request, read_request, write_request
from decoders.codec.response import read_response, write_response
from decoders.protocol import INVALID_REQUEST
from decoders.schema.registry import Api, default_schemas
from expectations.conversation.texts import identifier_text
from streaming.demo.front import (
    INVERTING,
    RENAMING,
    UPGRADED,
    CannotLiftError,
    altered,
    is_lifted,
    lift_advertisement,
    lift_response,
    lower_request,
    lowered_version,
    refusal,
)
from tests.exchange import ID_A, advertisement

SCHEMAS = default_schemas()
LIFTED = [api for api in SCHEMAS.apis if api.versions and api.is_overlay(api.versions.highest)]
EVERY = pytest.mark.parametrize("api", LIFTED, ids=lambda api: api.name)
TELEMETRY = ("GetTelemetrySubscriptions", "PushTelemetry")
TELEMETRY_RANGES = {71: (0, 1), 72: (0, 1)}
# Not zero at first: the ID could then be the tagged fields of an older header, and frames of some APIs would
# be ambiguous.
INSTANCE_ID = bytes(range(0x70, 0x80))
ADVERTISED_VERSIONS = range(5)
HEARTBEAT_RESPONSE = {
    "errorCode": 0,
    "memberId": "m",
    "memberEpoch": 1,
    "heartbeatIntervalMs": 5_000,
    "assignment": None,
}
RESPONSES: dict[str, tuple[int, dict[str, Any]]] = {
    "ConsumerGroupHeartbeat": (2, HEARTBEAT_RESPONSE),
    "ApiVersions": (6, advertisement()),
}


def request_of(api: Api, body: dict[str, Any] | None = None) -> Request:
    """A request at the newest version, as the front receives it."""
    version = api.versions.highest
    request = read_request(
        SCHEMAS, write_request(SCHEMAS, api.key, version, 7, None, body or {}, INSTANCE_ID)
    )
    assert request.known and request.failure is None
    return request


def ranges(frame: bytes, version: int) -> dict[int, tuple[int, int]]:
    body = read_response(SCHEMAS, frame, 18, version).body
    assert body is not None
    return {entry["apiKey"]: (entry["minVersion"], entry["maxVersion"]) for entry in body["apiKeys"]}


@EVERY
def test_a_lowered_request_is_what_a_client_of_today_would_send(api: Api) -> None:
    """Byte for byte: the version before, its header, the client ID, and telemetry's ID in the body."""
    before = api.versions.highest - 1
    body = {"clientInstanceId": identifier_text(INSTANCE_ID)} if api.name in TELEMETRY else {}
    lowered = lower_request(SCHEMAS, request_of(api), "app", before)
    assert lowered == write_request(SCHEMAS, api.key, before, 7, "app", body)
    assert api.is_released(before)


def test_every_api_of_the_kip_is_among_them() -> None:
    """All living APIs but SaslHandshake."""
    living = {api.name for api in SCHEMAS.apis if api.release_versions is not None}
    assert {api.name for api in LIFTED} == living - {"SaslHandshake"}
    assert {"OffsetDelete", *TELEMETRY} <= living


def test_offset_delete_loses_its_flexible_form() -> None:
    topics = [{"name": "orders", "partitions": [{"partitionIndex": 3}]}]
    api = SCHEMAS.api_named("OffsetDelete")
    assert api is not None
    lowered = lower_request(SCHEMAS, request_of(api, {"groupId": "g", "topics": topics}), "app", 0)
    assert lowered == bytes.fromhex(
        "002f 0000 00000007 0003617070  0001 67  00000001 0006 6f7264657273  00000001 00000003"
    )


@EVERY
def test_a_lifted_response_says_what_the_broker_said(api: Api) -> None:
    version = api.versions.highest
    response_frame = write_response(SCHEMAS, api.key, version - 1, 7, {})
    original = read_response(SCHEMAS, response_frame, api.key, version - 1).body or {}
    lifted_frame = lift_response(SCHEMAS, request_of(api), response_frame, version - 1)
    lifted = read_response(SCHEMAS, lifted_frame, api.key, version)
    assert (lifted.known, lifted.failure, lifted.remarks, lifted.correlation_id) == (True, None, (), 7)
    if api.name in TELEMETRY:
        original.pop("clientInstanceId", None)
    if api.name == "ApiVersions":
        original["apiKeys"] = [
            {"apiKey": key, "minVersion": lowest, "maxVersion": highest}
            for key, (lowest, highest) in TELEMETRY_RANGES.items()
        ]
    assert lifted.body == original


def test_a_response_that_cannot_be_read_cannot_be_lifted() -> None:
    metadata = SCHEMAS.api_named("Metadata")
    assert metadata is not None
    with pytest.raises(CannotLiftError, match="the response to Metadata v13 cannot be read"):
        lift_response(SCHEMAS, request_of(metadata), bytes.fromhex("00000007ff"), 13)
    with pytest.raises(CannotLiftError, match="the response to ApiVersions v4 cannot be read"):
        lift_advertisement(SCHEMAS, 4, bytes.fromhex("00000007"))


@pytest.mark.parametrize("version", ADVERTISED_VERSIONS)
def test_an_advertisement_is_lifted_by_one_where_the_broker_knows_all_of_the_release(version: int) -> None:
    released = {
        api.key: (api.release_versions.lowest, api.release_versions.highest)
        for api in SCHEMAS.apis
        if api.release_versions is not None
    }
    entries = [
        {"apiKey": key, "minVersion": lowest, "maxVersion": highest}
        for key, (lowest, highest) in released.items()
    ]
    response_frame = write_response(SCHEMAS, "ApiVersions", version, 7, {"apiKeys": entries})
    lifted = ranges(lift_advertisement(SCHEMAS, version, response_frame), version)
    sasl_handshake = 17
    assert lifted == {
        key: (lowest, highest + (key != sasl_handshake)) for key, (lowest, highest) in released.items()
    }


def test_what_the_broker_does_not_know_of_its_release_is_not_lifted() -> None:
    """An older range ends before header v3, and an unknown API has no version to lift to."""
    entries = [
        {"apiKey": key, "minVersion": 0, "maxVersion": highest} for key, highest in ((3, 12), (32_000, 5))
    ]
    response_frame = write_response(SCHEMAS, "ApiVersions", 4, 7, {"apiKeys": entries})
    assert ranges(lift_advertisement(SCHEMAS, 4, response_frame), 4) == {
        3: (0, 12),
        32_000: (0, 5),
        **TELEMETRY_RANGES,
    }


def test_the_telemetry_apis_are_advertised_though_the_broker_hides_them() -> None:
    """Once each: a broker that does export metrics lists them itself."""
    for listed in ([], [{"apiKey": 71, "minVersion": 0, "maxVersion": 0}]):
        response_frame = write_response(SCHEMAS, "ApiVersions", 4, 7, {"apiKeys": listed})
        assert ranges(lift_advertisement(SCHEMAS, 4, response_frame), 4) == TELEMETRY_RANGES


def test_the_response_to_an_unsupported_version_stays_one() -> None:
    """KIP-511: error 35 in version 0, for any requested version, with no other range than its own."""
    body = {"errorCode": 35, "apiKeys": [{"apiKey": 18, "minVersion": 0, "maxVersion": 5}]}
    response_frame = write_response(SCHEMAS, "ApiVersions", 0, 7, body)
    lifted = read_response(SCHEMAS, lift_advertisement(SCHEMAS, 4, response_frame), 18, 4)
    assert (lifted.body_version, (lifted.body or {})["errorCode"]) == (0, 35)
    assert (lifted.body or {})["apiKeys"] == [{"apiKey": 18, "minVersion": 0, "maxVersion": 6}]


@EVERY
def test_a_refusal_says_invalid_request_or_there_is_none(api: Api) -> None:
    """If the response has no error field of its own at this version, the connection is closed instead."""
    response_frame = refusal(SCHEMAS, request_of(api))
    version = api.versions.highest
    fields = {field.name for field in api.response.struct.fields if version in field.versions}
    if response_frame is None:
        assert "errorCode" not in fields
        return
    response = read_response(SCHEMAS, response_frame, api.key, version)
    assert (response.known, response.correlation_id) == (True, 7)
    assert (response.body or {})["errorCode"] == INVALID_REQUEST


@EVERY
def test_only_header_v3_is_lifted(api: Api) -> None:
    assert is_lifted(request_of(api))
    frame = write_request(SCHEMAS, api.key, api.versions.highest - 1, 7, "app", {})
    assert not is_lifted(read_request(SCHEMAS, frame))


def test_an_api_with_an_unstable_version_is_lifted_beyond_it() -> None:
    """Brokers advertise InitProducerId up to version 5, since 6 is unstable; header v3 comes with 7."""
    entries = [{"apiKey": 22, "minVersion": 0, "maxVersion": 5}]
    response_frame = write_response(SCHEMAS, "ApiVersions", 4, 7, {"apiKeys": entries})
    assert ranges(lift_advertisement(SCHEMAS, 4, response_frame), 4)[22] == (0, 7)


def test_a_request_is_lowered_to_the_newest_version_that_the_broker_has() -> None:
    api = SCHEMAS.api_named("InitProducerId")
    assert api is not None
    body = {"transactionalId": "orders", "transactionTimeoutMs": 1_000}
    request = request_of(api, body)
    assert lowered_version(request, None) == 6
    assert lowered_version(request, 5) == 5
    assert lower_request(SCHEMAS, request, "app", 5) == write_request(SCHEMAS, api.key, 5, 7, "app", body)


def test_a_request_that_an_older_version_cannot_carry_is_not_lowered() -> None:
    api = SCHEMAS.api_named("InitProducerId")
    assert api is not None
    request = request_of(api, {"transactionalId": "orders", "enable2Pc": True})
    with pytest.raises(CannotLiftError, match="InitProducerId v5 cannot carry the request"):
        lower_request(SCHEMAS, request, "app", 5)


def responses(client_id: str, api: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The bodies of the broker's response and of the client's."""
    version, body = RESPONSES[api]
    request = read_request(SCHEMAS, write_request(SCHEMAS, api, version, 7, client_id, {}, ID_A))
    frame = write_response(SCHEMAS, request.api_key, version, 7, body)
    read = [
        read_response(SCHEMAS, response, request.api_key, version)
        for response in (frame, altered(SCHEMAS, client_id, request, frame))
    ]
    assert [each.correlation_id for each in read] == [7, 7]
    sent, received = (each.body for each in read)
    assert sent is not None and received is not None
    return sent, received


def test_a_member_is_renamed() -> None:
    sent, received = responses(RENAMING, "ConsumerGroupHeartbeat")
    assert received.pop("memberId") != sent.pop("memberId")
    assert received == sent


def test_one_range_is_inverted() -> None:
    sent, received = responses(INVERTING, "ApiVersions")
    differing = [entry for entry in received["apiKeys"] if entry not in sent["apiKeys"]]
    assert [entry["minVersion"] > entry["maxVersion"] for entry in differing] == [True]
    assert len(received["apiKeys"]) == len(sent["apiKeys"])


def test_one_api_loses_its_old_versions() -> None:
    sent, received = responses(UPGRADED, "ApiVersions")
    differing = [entry for entry in received["apiKeys"] if entry not in sent["apiKeys"]]
    assert differing == [{"apiKey": 10, "minVersion": 4, "maxVersion": 7}]
    assert len(received["apiKeys"]) == len(sent["apiKeys"])


@pytest.mark.parametrize(
    ("client_id", "api"),
    [(RENAMING, "ApiVersions"), (INVERTING, "ConsumerGroupHeartbeat"), (UPGRADED, "ConsumerGroupHeartbeat")]
    + [(client_id, api) for client_id in ("kipwatch-1313", "") for api in RESPONSES],
)
def test_nothing_else_is_altered(client_id: str, api: str) -> None:
    sent, received = responses(client_id, api)
    assert received == sent
