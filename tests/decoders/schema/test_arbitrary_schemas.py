"""Any schema is read, or refused with a SchemaError: nothing else is raised."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from decoders.schema.grammar import parse_message
from decoders.schema.model import SchemaError
from decoders.schema.registry import Schemas
from decoders.schema.table import COMMITTED_TABLE, parse_table, read_table
from tests.examples import examples

TABLE = read_table(COMMITTED_TABLE)
APIS = (3, 18, 47, 71)
MESSAGES = [one for one in TABLE["messages"] if one["type"] == "header" or one.get("apiKey") in APIS]
WORDS = ["null", "none", "0+", "1", "2-1", "3+", "string", "[]int8", "Topic", "[]Topic", "", "-1", "0x7f"]
VALUES = st.one_of(
    st.sampled_from(WORDS),
    st.none(),
    st.booleans(),
    st.integers(-1, 99),
    st.floats(),
    st.text(max_size=4),
    st.lists(st.just({"name": "X"}) | st.integers(), max_size=2),
    st.dictionaries(st.sampled_from(["0-1", "0+", "name"]), st.sampled_from(["1", "3", 2]), max_size=2),
)


def places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every property and entry below a node."""
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [place for key, child in children for place in [(*path, key), *places(child, (*path, key))]]


PLACES = places(MESSAGES)


def changed(place: tuple[Any, ...], value: Any) -> list[Any]:
    messages = copy.deepcopy(MESSAGES)
    node: Any = messages
    for key in place[:-1]:
        node = node[key]
    node[place[-1]] = value
    return messages


@examples(400)
@given(st.sampled_from(PLACES), VALUES)
def test_a_schema_with_anything_anywhere_is_read_or_refused(place: tuple[Any, ...], value: Any) -> None:
    table = {"release": "9", "digest": "", "messages": changed(place, value)}
    try:
        Schemas.of(parse_table(json.dumps(table), "table"))
    except SchemaError as error:
        assert error.reason
        assert error.file


@examples(200)
@given(
    st.sampled_from(["default", "tag", "taggedVersions", "nullableVersions", "versions", "headerVersions"]),
    VALUES,
)
@example("headerVersions", {})
def test_a_property_with_anything_in_it_is_read_or_refused(name: str, value: Any) -> None:
    field = {"name": "X", "type": "string", "versions": "0+"}
    message = {"type": "data", "name": "X", "validVersions": "0-1", "flexibleVersions": "0+"}
    for document in ({**message, "fields": [{**field, name: value}]}, {**message, name: value}):
        try:
            parse_message(document, "X.json")
        except SchemaError as error:
            assert error.file == "X.json"


def test_fields_nested_without_end_are_refused() -> None:
    field: dict[str, Any] = {"name": "X", "type": "string", "versions": "0+"}
    for _ in range(5_000):
        field = {"name": "X", "type": "X", "versions": "0+", "fields": [field]}
    message = {"type": "data", "name": "X", "validVersions": "0", "flexibleVersions": "none"}
    with pytest.raises(SchemaError, match=r"X\.json: its fields are nested too deeply"):
        parse_message({**message, "fields": [field]}, "X.json")
    with pytest.raises(SchemaError, match="neither a jar nor a table"):
        parse_table("[" * 100_000, "table")
