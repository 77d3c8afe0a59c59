"""The scripted broker: what it knows is served, what it does not know is refused or closed upon."""

from __future__ import annotations

from typing import Any

import pytest

from decoders.codec.request import write_request
from decoders.codec.response import read_response
from decoders.protocol import API_VERSIONS, METADATA, UNSUPPORTED_VERSION
from decoders.schema.registry import default_schemas
from tests.clients.rediscovered.bug import Server
from tests.clients.rediscovered.scripted import ScriptedBroker

SCHEMAS = default_schemas()
KNOWS = {"ApiVersions": (0, 3), "Metadata": (1, 8)}


def broker(**settings: Any) -> ScriptedBroker:
    return ScriptedBroker(SCHEMAS, Server(knows=KNOWS, **settings), 9092)


def asked(api: str, version: int, **settings: Any) -> bytes | None:
    return broker(**settings).respond(write_request(SCHEMAS, api, version, 7, "tester", {}))


def body(frame: bytes | None, key: int, version: int) -> dict[str, Any]:
    assert frame is not None
    response = read_response(SCHEMAS, frame, key, version)
    assert (response.correlation_id, response.failure) == (7, None)
    return response.body or {}


def test_it_lists_what_it_knows() -> None:
    listed = body(asked("ApiVersions", 3), API_VERSIONS, 3)["apiKeys"]
    assert {entry["apiKey"]: (entry["minVersion"], entry["maxVersion"]) for entry in listed} == {
        API_VERSIONS: (0, 3),
        METADATA: (1, 8),
    }


def test_it_is_the_only_broker() -> None:
    [known] = body(asked("Metadata", 8), METADATA, 8)["brokers"]
    assert (known["host"], known["port"]) == ("127.0.0.1", 9092)


@pytest.mark.parametrize(("refusal", "ranges"), [("range", [(0, 3)]), ("empty", []), ("newer", [(0, 4)])])
def test_it_refuses_a_newer_version_of_api_versions(refusal: str, ranges: list[tuple[int, int]]) -> None:
    refused = body(asked("ApiVersions", 4, refusal=refusal), API_VERSIONS, 0)
    assert refused["errorCode"] == UNSUPPORTED_VERSION
    assert [(entry["minVersion"], entry["maxVersion"]) for entry in refused["apiKeys"]] == ranges


@pytest.mark.parametrize(("api", "version"), [("Metadata", 0), ("Metadata", 9), ("FindCoordinator", 0)])
def test_it_closes_upon_what_it_does_not_know(api: str, version: int) -> None:
    assert asked(api, version) is None


def test_it_closes_upon_what_it_cannot_read() -> None:
    frame = write_request(SCHEMAS, "Metadata", 8, 7, "tester", {})
    assert broker().respond(frame[:-1]) is None
    assert broker(answers={"Metadata": {"controllerId": 5}}).respond(frame) is not None
