"""Broker addresses in responses are replaced, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from decoders.codec.response import read_response, write_response
from decoders.schema.model import Field, Struct
from decoders.schema.registry import default_schemas
from streaming.record.rewriting import ADDRESSES, Address, UnreadableResponseError, holds_addresses, rewrite

SCHEMAS = default_schemas()
REAL, RELAYED = ("broker.example", 9092), ("127.0.0.1", 4711)
VERSIONS = [
    (api.key, version)
    for api in SCHEMAS.apis
    if api.name in ADDRESSES
    for version in range(api.versions.lowest, api.versions.highest + 1)
    if api.is_released(version)
]
# Addresses of other things than brokers, and of controllers, which only brokers talk to.
NOT_OF_BROKERS = {
    "Vote",
    "BeginQuorumEpoch",
    "EndQuorumEpoch",
    "DescribeQuorum",
    "FetchSnapshot",
    "UpdateRaftVoter",
    "StreamsGroupHeartbeat",
    "StreamsGroupDescribe",
}


def replace(address: Address) -> Address:
    assert address == REAL
    return RELAYED


def named(struct: Struct, version: int, place: Address) -> dict[str, Any]:
    """A body with an address in every field for one."""
    body: dict[str, Any] = {}
    for field in struct.fields:
        if version not in field.versions:
            continue
        if field.name in ("host", "port"):
            body[field.name] = place[field.name == "port"]
        elif field.struct and field.is_array and has_address(field.struct):
            body[field.name] = [named(field.struct, version, place)]
    return body


def has_address(struct: Struct) -> bool:
    return {"host", "port"} <= {field.name for field in struct.fields}


def response(key: int, version: int, place: Address) -> bytes:
    api = SCHEMAS.api(key)
    assert api
    return write_response(SCHEMAS, key, version, 7, named(api.response.struct, version, place))


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_every_version_is_rewritten_and_only_its_addresses(key: int, version: int) -> None:
    assert rewrite(SCHEMAS, response(key, version, REAL), key, version, replace) == response(
        key, version, RELAYED
    )


def test_every_response_that_names_a_broker_is_listed() -> None:
    def names(fields: tuple[Field, ...]) -> bool:
        return {"host", "port"} <= {field.name for field in fields} or any(
            names(field.struct.fields) for field in fields if field.struct
        )

    naming = {api.name for api in SCHEMAS.apis if names(api.response.struct.fields)}
    assert naming - NOT_OF_BROKERS == set(ADDRESSES)
    assert {api.name for api in SCHEMAS.apis if holds_addresses(SCHEMAS, api.key)} == set(ADDRESSES)


def test_an_unknown_coordinator_has_no_address_to_replace() -> None:
    frame = write_response(SCHEMAS, "FindCoordinator", 3, 7, {"errorCode": 15, "host": "", "port": -1})
    assert rewrite(SCHEMAS, frame, 10, 3, replace) == frame


def test_records_of_a_fetch_stay_as_they_are() -> None:
    body = {
        "responses": [{"topicId": "A" * 22, "partitions": [{"partitionIndex": 0, "records": "AQID"}]}],
        "nodeEndpoints": [{"nodeId": 1, "host": REAL[0], "port": REAL[1]}],
    }
    frame = write_response(SCHEMAS, "Fetch", 16, 7, body)
    rewritten = read_response(SCHEMAS, rewrite(SCHEMAS, frame, 1, 16, replace), 1, 16)
    before = read_response(SCHEMAS, frame, 1, 16)
    assert rewritten.body and before.body
    assert rewritten.body["responses"] == before.body["responses"]
    assert rewritten.body["nodeEndpoints"][0]["host"] == RELAYED[0]


def test_what_cannot_be_read_is_refused() -> None:
    with pytest.raises(UnreadableResponseError, match="API 3 v12"):
        rewrite(SCHEMAS, response(3, 12, REAL)[:-3], 3, 12, replace)
