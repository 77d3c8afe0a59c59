"""`headerVersions`: the rules of KIP-1313, those of Kafka's generator, and the versions of the overlay."""

from __future__ import annotations

from typing import Any

import pytest

from decoders.schema.grammar import parse_message
from decoders.schema.header_versions import Layout, parse_header_versions, remarks, request_header_version
from decoders.schema.model import Message, SchemaError, Table, VersionRange
from decoders.schema.overlay import KIP_1313
from decoders.schema.registry import Schemas, default_schemas
from decoders.schema.table import COMMITTED_TABLE, messages_of, read_table

DELETE_GROUPS: dict[str, Any] = {
    "apiKey": 42,
    "type": "request",
    "name": "DeleteGroupsRequest",
    "validVersions": "0-3",
    "flexibleVersions": "2+",
    "headerVersions": {"0-1": "1", "2": "2", "3+": "3"},
}


def amended() -> Table:
    """The committed table with the overlay."""
    return KIP_1313.laid_over(read_table(COMMITTED_TABLE), "plain")


def stated(name: str) -> dict[str, str]:
    """The `headerVersions` that the overlay adds to a schema."""
    (document,) = [message for message in amended()["messages"] if message["name"] == name]
    return dict(document["headerVersions"])


def test_the_kips_own_example_is_read() -> None:
    message = parse_message(DELETE_GROUPS, "DeleteGroupsRequest.json")
    assert [request_header_version(message, version) for version in (0, 1, 2, 3, 9)] == [1, 1, 2, 3, 3]


@pytest.mark.parametrize(
    ("headers", "valid", "reason"),
    [
        ({"0-1": "1", "3+": "3"}, "0-3", "no range holds the versions between 0-1 and 3"),
        ({"0-2": "1", "2+": "3"}, "0-3", "0-2 and 2\\+ overlap"),
        ({"0+": "1", "2+": "3"}, "0-3", "0\\+ and 2\\+ overlap"),
        ({"0-1": "1", "2-3": "2"}, "0-3", "the last range is not open"),
        ({}, "0-3", "the last range is not open"),
        ({"1+": "2"}, "0-3", "version 0 is valid, but in no range"),
        ({"none": "1", "0+": "1"}, "0-3", "'none' is no range of versions"),
        ({"a": "1"}, "0-3", "'a' is not a version"),
        ({"0+": "x"}, "0-3", "'x', for 0\\+, is not a header version"),
        ({"0+": -1}, "0-3", "-1, for 0\\+, is not a header version"),
        ({"0+": True}, "0-3", "True, for 0\\+, is not a header version"),
    ],
)
def test_ranges_that_do_not_cover_the_valid_versions_once_each_are_refused(
    headers: dict[str, Any], valid: str, reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_header_versions(headers, VersionRange.parse(valid))
    document = {**DELETE_GROUPS, "validVersions": valid, "headerVersions": headers}
    with pytest.raises(SchemaError, match=rf"DeleteGroupsRequest\.json: headerVersions: .*({reason})"):
        parse_message(document, "DeleteGroupsRequest.json")


def test_ranges_may_come_in_any_order_and_header_versions_bare() -> None:
    read = parse_header_versions({"3+": 3, "0-1": 1, "2": 2}, VersionRange(0, 3))
    assert [(str(versions), header) for versions, header in read] == [("0-1", 1), ("2", 2), ("3+", 3)]


@pytest.mark.parametrize("kind", ["header", "data"])
def test_only_requests_and_responses_state_header_versions(kind: str) -> None:
    document = {key: value for key, value in DELETE_GROUPS.items() if key != "apiKey"} | {"type": kind}
    with pytest.raises(SchemaError, match="belongs to a request or response only"):
        parse_message(document, "x.json")


def table_of(request: dict[str, Any], response: dict[str, Any], key: int = 42) -> dict[str, Message]:
    """The committed headers, and one API that states its header versions."""
    headers = [message for message in amended()["messages"] if message["type"] == "header"]
    common = {"apiKey": key, "validVersions": "1-3", "flexibleVersions": "2+"}
    messages = [
        {**common, "type": "request", "name": "XRequest", "headerVersions": request},
        {**common, "type": "response", "name": "XResponse", "headerVersions": response},
    ]
    return messages_of({"release": "9", "digest": "", "messages": [*headers, *messages]})


GOOD_REQUEST, GOOD_RESPONSE = {"0-1": "1", "2": "2", "3+": "3"}, {"0-1": "0", "2+": "1"}


@pytest.mark.parametrize(
    ("request_headers", "response_headers", "key", "told"),
    [
        (GOOD_REQUEST, GOOD_RESPONSE, 42, []),
        ({"1": "1", "2+": "2"}, GOOD_RESPONSE, 42, ["the first range, 1, does not start at version 0"]),
        (
            {"0-1": "2", "2": "3", "3+": "2"},
            GOOD_RESPONSE,
            42,
            ["from versions 3+ on, the header goes back from 3 to 2"],
        ),
        (
            {"0-1": "1", "2+": "7"},
            GOOD_RESPONSE,
            42,
            ["versions 2+ use header 7, and RequestHeader has only 1-3"],
        ),
        (GOOD_REQUEST, {"0+": "0"}, 42, ["versions 0+ hold a flexible one, and header 0 is not"]),
        (GOOD_REQUEST, {"0+": "0"}, 18, []),
        (
            GOOD_REQUEST,
            GOOD_RESPONSE,
            18,
            ["versions 2+ use header 1: this response has header 0 at every version"],
        ),
    ],
)
def test_what_kafkas_generator_would_refuse_is_remarked_upon(
    request_headers: dict[str, str], response_headers: dict[str, str], key: int, told: list[str]
) -> None:
    found = remarks(table_of(request_headers, response_headers, key))
    assert [remark.reason.removeprefix("headerVersions: ") for remark in found] == told


def test_the_overlay_states_what_the_kip_states() -> None:
    assert stated("OffsetDeleteRequest") == {"0": "1", "1+": "3"}
    assert stated("OffsetDeleteResponse") == {"0": "0", "1+": "1"}
    assert stated("GetTelemetrySubscriptionsRequest") == {"0": "2", "1+": "3"}
    assert stated("GetTelemetrySubscriptionsResponse") == {"0+": "1"}
    assert stated("PushTelemetryRequest") == {"0": "2", "1+": "3"}
    assert stated("DeleteGroupsRequest") == {"0-1": "1", "2-3": "2", "4+": "3"}
    assert stated("DeleteGroupsResponse") == {"0-1": "0", "2+": "1"}
    assert stated("ApiVersionsResponse") == {"0+": "0"}


def test_the_overlay_is_as_kafkas_generator_would_have_it() -> None:
    assert remarks(messages_of(amended())) == []


def test_a_release_that_states_its_header_versions_wins_over_the_overlay() -> None:
    schemas = Schemas.of({**amended(), "release": "9"})
    assert (schemas.overlay, list(schemas.request_headers)) == (None, [Layout.PLAIN])
    metadata = schemas.api_named("Metadata")
    assert metadata is not None
    assert (str(metadata.release_versions), metadata.is_overlay(14)) == ("0-14", False)
    # It says so of versions to come, too; the overlay does not dare to.
    assert metadata.request_header_version(99) == 3


def test_the_overlay_knows_both_layouts_of_its_header() -> None:
    assert list(default_schemas().request_headers) == [Layout.PLAIN, Layout.TAGGED]
