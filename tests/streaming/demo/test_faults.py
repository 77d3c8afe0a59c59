"""The front's faults: each alters one response to a client that requests it, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from decoders.codec.request import read_request, write_request
from decoders.codec.response import read_response, write_response
from decoders.schema.registry import default_schemas
from streaming.demo.faults import INVERTING, RENAMING, UPGRADED, altered
from tests.exchange import ID_A, advertisement

SCHEMAS = default_schemas()
HEARTBEAT = {
    "errorCode": 0,
    "memberId": "m",
    "memberEpoch": 1,
    "heartbeatIntervalMs": 5_000,
    "assignment": None,
}
RESPONSES: dict[str, tuple[int, dict[str, Any]]] = {
    "ConsumerGroupHeartbeat": (2, HEARTBEAT),
    "ApiVersions": (6, advertisement()),
}


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
