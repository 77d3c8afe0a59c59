"""Every error code of a response is found, wherever its schema has a field for one."""

from __future__ import annotations

from typing import Any

import pytest

from decoders.codec.response import read_response, write_response
from decoders.schema.registry import default_schemas
from expectations.conversation.statement_reader import error_code_paths, error_codes, has_tagged_error_code

SCHEMAS = default_schemas()


def codes(api: str, version: int, body: dict[str, Any]) -> tuple[int, ...]:
    """The error codes of a response that was written and read again."""
    found = SCHEMAS.api_named(api)
    assert found is not None
    response = read_response(SCHEMAS, write_response(SCHEMAS, api, version, 1, body), found.key, version)
    assert response.body is not None
    return error_codes(found.response, response.body)


def test_an_error_code_at_the_top_is_found() -> None:
    assert codes("OffsetDelete", 0, {"errorCode": 42}) == (42,)


def test_error_codes_are_told_once_each_in_their_order() -> None:
    topics = [{"name": name, "errorCode": code} for name, code in (("a", 29), ("b", 3), ("c", 29))]
    assert codes("Metadata", 13, {"topics": topics}) == (0, 3, 29)


def test_an_error_code_deep_inside_is_found() -> None:
    partitions = [{"partitionIndex": 0, "errorCode": 0, "acknowledgeErrorCode": 121, "records": ""}]
    body = {"responses": [{"topicId": "A" * 22, "partitions": partitions}]}
    assert codes("ShareFetch", 1, body) == (0, 121)


@pytest.mark.parametrize(("api", "version"), [("Produce", 13), ("FindCoordinator", 6)])
def test_without_an_item_that_carries_one_there_is_none(api: str, version: int) -> None:
    assert codes(api, version, {}) == ()


def test_every_response_that_clients_get_has_a_place_for_an_error() -> None:
    """So `error 0 in every field present` can be asked of each."""
    for api in SCHEMAS.by_key.values():
        if api.versions:
            fields = str(_names(api.response.struct))
            assert "rrorCode" in fields, api.name


def _names(struct: Any) -> list[Any]:
    return [(field.name, _names(field.struct) if field.struct else None) for field in struct.fields]


def test_the_fields_that_hold_them_can_be_named() -> None:
    api = SCHEMAS.api_named("Metadata")
    assert api is not None
    paths = {"errorCode", "topics.errorCode", "topics.partitions.errorCode"}
    assert set(error_code_paths(api.response.struct)) == paths


def test_an_error_code_that_may_be_left_out_is_told_from_others() -> None:
    tagged = {api.name for api in SCHEMAS.apis if has_tagged_error_code(api.response.struct)}
    assert "CreateTopics" in tagged
    assert "Metadata" not in tagged
