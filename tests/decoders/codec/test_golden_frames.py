"""Frames whose bytes a Kafka 4.4.0 broker or Kafka's own classes have confirmed."""

from __future__ import annotations

from typing import Any

import pytest

from decoders.codec.request import read_request, write_request
from decoders.codec.response import read_response, write_response
from decoders.schema.registry import default_schemas

SCHEMAS = default_schemas()

REQUESTS: list[Any] = [
    pytest.param(0, "0012 0000 00000007 0003 636964", {}, id="ApiVersions v0, header 1"),
    pytest.param(
        3,
        "0012 0003 00000007 0003 636964 00 0278 0231 00",
        {"clientSoftwareName": "x", "clientSoftwareVersion": "1"},
        id="ApiVersions v3, header 2 with an int16 client ID",
    ),
    pytest.param(
        5,
        "0012 0005 00000007 0003 636964 00 0278 0231 0263 00000003 00",
        {"clientSoftwareName": "x", "clientSoftwareVersion": "1", "clusterId": "c", "nodeId": 3},
        id="ApiVersions v5 with cluster and node",
    ),
]


@pytest.mark.parametrize(("version", "frame", "body"), REQUESTS)
def test_api_versions_request(version: int, frame: str, body: dict[str, Any]) -> None:
    assert write_request(SCHEMAS, "ApiVersions", version, 7, "cid", body) == bytes.fromhex(frame)
    request = read_request(SCHEMAS, bytes.fromhex(frame))
    assert (request.client_id, request.correlation_id, request.body) == ("cid", 7, body)
    assert request.header_version == (2 if version >= 3 else 1)
    assert request.client_instance_id is None


@pytest.mark.parametrize("asked", [99, -1, 4], ids=["unknown", "negative", "known, but not to this broker"])
def test_the_response_to_an_unsupported_api_versions_has_version_0(asked: int) -> None:
    frame = bytes.fromhex("00000007 0023 00000001 0012 0000 0005")
    response = read_response(SCHEMAS, frame, 18, asked)
    own_range = {"errorCode": 35, "apiKeys": [{"apiKey": 18, "minVersion": 0, "maxVersion": 5}]}
    assert (response.known, response.body_version, response.header_version) == (True, 0, 0)
    assert response.body == own_range
    assert write_response(SCHEMAS, 18, 0, 7, own_range) == frame


def test_before_kafka_2_4_that_response_had_no_range() -> None:
    response = read_response(SCHEMAS, bytes.fromhex("00000007 0023 00000000"), 18, 3)
    assert (response.body_version, response.body) == (0, {"errorCode": 35, "apiKeys": []})


def test_a_refusal_in_the_layout_that_was_asked_for_is_read_as_such() -> None:
    frame = bytes.fromhex("00000007 0023 01 00000000 00")
    response = read_response(SCHEMAS, frame, 18, 3)
    assert (response.failure, response.body_version) == (None, 3)
    assert response.body == {"errorCode": 35, "apiKeys": [], "throttleTimeMs": 0}


def test_a_response_without_error_35_to_an_unknown_version_is_not_known() -> None:
    response = read_response(SCHEMAS, bytes.fromhex("00000007 0000 01 00000000 00"), 18, 99)
    assert (response.known, response.failure, response.body, response.correlation_id) == (
        False,
        None,
        None,
        7,
    )


def test_the_response_invalid_request_has_the_version_of_the_request() -> None:
    frame = bytes.fromhex("00000007 002a 01 00000000 00")
    response = read_response(SCHEMAS, frame, 18, 3)
    assert response.body == {"errorCode": 42, "apiKeys": [], "throttleTimeMs": 0}
    assert (response.body_version, response.header_version) == (3, 0)
    assert write_response(SCHEMAS, "ApiVersions", 3, 7, {"errorCode": 42}) == frame


def test_an_api_versions_of_an_unknown_version_still_shows_its_header() -> None:
    request = read_request(SCHEMAS, bytes.fromhex("0012 0063 00000007 0003 636964 00 beef"))
    assert (request.known, request.header_version, request.client_id) == (False, 2, "cid")
    assert (request.body, request.failure) == (None, None)
