"""Differences between two releases by API, version and field."""

from __future__ import annotations

from typing import Any

from decoders.schema.difference import Difference, FieldChange, PropertyChange, Renaming, difference
from decoders.schema.model import Table
from decoders.schema.table import COMMITTED_TABLE, read_table

HEADERS = [message for message in read_table(COMMITTED_TABLE)["messages"] if message["type"] == "header"]
NAME = {"name": "Name", "type": "string", "versions": "0+"}
RACK = {"name": "Rack", "type": "string", "versions": "2+", "nullableVersions": "2+", "default": "null"}


def api(key: int = 3, name: str = "Metadata", **changes: Any) -> list[dict[str, Any]]:
    """A request with the given changes, and its plain response."""
    request = {"apiKey": key, "validVersions": "0-1", "flexibleVersions": "1+", "fields": [NAME], **changes}
    response = {**request, "type": "response", "name": f"{name}Response", "fields": []}
    for only in ("latestVersionUnstable", "listeners", "headerVersions", "deprecatedVersions"):
        response.pop(only, None)
    return [{**request, "type": "request", "name": f"{name}Request"}, response]


def release(*apis: list[dict[str, Any]], number: str = "1") -> Table:
    messages = [message for pair in apis for message in pair]
    return {"release": number, "digest": "", "messages": [*HEADERS, *messages]}


def of_request(found: Difference) -> tuple[tuple[PropertyChange, ...], tuple[FieldChange, ...]]:
    (request,) = [message for message in found.messages if message.name == "MetadataRequest"]
    return request.changes, request.fields


def test_a_release_differs_in_nothing_from_itself() -> None:
    table = read_table(COMMITTED_TABLE)
    found = difference(table, table)
    assert (found.added, found.removed, found.renamed, found.messages) == ({}, {}, (), ())


def test_apis_come_go_and_change_their_names() -> None:
    older = release(api(), api(5, "Gone"), api(9, "Former"))
    newer = release(api(), api(9, "Latter"), api(7, "Come", validVersions="0"), number="2")
    found = difference(older, newer)
    assert (found.older, found.newer) == ("1", "2")
    assert (found.added, found.removed) == ({"Come": "0"}, {"Gone": "0-1"})
    assert found.renamed == (Renaming(9, "Former", "Latter"),)


def test_all_fields_of_a_new_api_are_new() -> None:
    come = api(7, "Come", validVersions="1-2", fields=[NAME, RACK])
    (request,) = difference(release(api()), release(api(), come)).messages
    assert (request.name, request.changes) == ("ComeRequest", ())
    assert request.fields == (
        FieldChange(1, 1, "name", None, "string"),
        FieldChange(2, 1, "rack", None, "string nullable default null"),
    )


def test_a_new_version_is_compared_with_the_one_before() -> None:
    found = difference(release(api()), release(api(validVersions="0-2", fields=[NAME, RACK])))
    assert of_request(found) == (
        (PropertyChange("versions", "0-1", "0-2"),),
        (FieldChange(2, 1, "rack", None, "string nullable default null"),),
    )


def test_a_version_that_both_have_is_compared_with_itself() -> None:
    changed = [
        {**NAME, "type": "[]string"},
        {**RACK, "versions": "1+", "nullableVersions": "1+", "taggedVersions": "1+", "tag": 0},
    ]
    _, fields = of_request(difference(release(api()), release(api(fields=changed))))
    assert fields == (
        FieldChange(0, 0, "name", "string", "[]string"),
        FieldChange(1, 1, "name", "string", "[]string"),
        FieldChange(1, 1, "rack", None, "string nullable tag 0 default null"),
    )


def test_fields_of_structs_are_named_by_their_path() -> None:
    def nested(type_: str) -> list[dict[str, Any]]:
        inner = {"name": "Inner", "type": type_, "versions": "1+", "default": "7"}
        return api(fields=[{"name": "Outer", "type": "[]Outer", "versions": "0+", "fields": [inner]}])

    _, fields = of_request(difference(release(nested("int8")), release(nested("int16"))))
    assert fields == (FieldChange(1, 1, "outer.inner", "int8 default 7", "int16 default 7"),)


def test_flexibility_headers_deprecation_stability_and_listeners_are_compared() -> None:
    newer = api(
        flexibleVersions="0+",
        deprecatedVersions="0",
        latestVersionUnstable=True,
        listeners=["broker"],
        headerVersions={"0": "2", "1+": "3"},
    )
    changes, _ = of_request(difference(release(api()), release(newer)))
    assert changes == (
        PropertyChange("flexible", "1+", "0+"),
        PropertyChange("deprecated", "none", "0"),
        PropertyChange("unstable", "none", "v1"),
        PropertyChange("listeners", "", "broker"),
        PropertyChange("header of v0", "1", "2"),
        PropertyChange("header of v1", "2", "3"),
    )
