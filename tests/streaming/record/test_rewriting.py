"""Broker addresses in responses are replaced, and nothing else, however the bytes are cut into chunks."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.codec.response import read_response, write_response
from decoders.frame.record import Direction
from decoders.schema.model import Field, Struct
from decoders.schema.registry import default_schemas
from streaming.record.rewriting import (
    ADDRESSES,
    MAX_IN_FLIGHT,
    Address,
    RewritingPassage,
    UnreadableResponseError,
    holds_addresses,
    rewrite,
)
from tests.decoders.wire.conversation import prefixed

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
CHUNKS = st.lists(st.integers(1, 60), max_size=40)


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


def next_port(address: Address) -> Address:
    return "127.0.0.1", address[1] + 1


def passage(warnings: list[str] | None = None) -> RewritingPassage:
    return RewritingPassage(SCHEMAS, next_port, ([] if warnings is None else warnings).append)


def request(key: int, version: int, correlation_id: int) -> bytes:
    return prefixed(struct.pack(">hhi", key, version, correlation_id) + bytes(20))


def metadata(correlation_id: int, host: str, port: int) -> bytes:
    brokers = [{"nodeId": 1, "host": host, "port": port}]
    return prefixed(write_response(SCHEMAS, "Metadata", 12, correlation_id, {"brokers": brokers}))


def through(way: RewritingPassage, direction: Direction, data: bytes, sizes: list[int]) -> bytes:
    """Pass bytes in chunks of these sizes, and the rest at once."""
    passed, at = b"", 0
    for size in [*sizes, len(data)]:
        if chunk := data[at : at + size]:
            passed += way.process(direction, chunk) or b""
        at += size
    return passed + way.end(direction)


@given(CHUNKS, CHUNKS)
def test_addresses_are_replaced_whatever_the_chunks(to_broker: list[int], to_client: list[int]) -> None:
    way = passage()
    requests = request(3, 12, 1) + request(18, 3, 2) + request(3, 12, 3)
    other = prefixed(struct.pack(">i", 2) + bytes(300))
    responses = metadata(1, "a-long-name.example", 9092) + other + metadata(3, "b", 1)
    assert through(way, Direction.TO_BROKER, requests, to_broker) == requests
    rewritten = metadata(1, "127.0.0.1", 9093) + other + metadata(3, "127.0.0.1", 2)
    assert through(way, Direction.TO_CLIENT, responses, to_client) == rewritten


@given(st.binary(max_size=200), CHUNKS)
def test_what_is_no_kafka_passes_unchanged(data: bytes, sizes: list[int]) -> None:
    for direction in (Direction.TO_BROKER, Direction.TO_CLIENT):
        assert through(passage(), direction, data, sizes) == data


def test_a_response_that_cannot_be_read_passes_with_a_warning() -> None:
    warnings: list[str] = []
    way = passage(warnings)
    way.process(Direction.TO_BROKER, request(3, 12, 1))
    broken = prefixed(struct.pack(">i", 1) + b"\xff" * 20)
    assert way.process(Direction.TO_CLIENT, broken) == broken
    assert len(warnings) == 1
    assert "is not recorded" in warnings[0]


def test_requests_without_a_response_are_not_kept_for_ever() -> None:
    way = passage()
    for number in range(MAX_IN_FLIGHT + 1):
        way.process(Direction.TO_BROKER, request(3, 12, number))
    first, last = metadata(0, "a", 1), metadata(MAX_IN_FLIGHT, "a", 1)
    assert way.process(Direction.TO_CLIENT, first) == first
    assert way.process(Direction.TO_CLIENT, last) == metadata(MAX_IN_FLIGHT, "127.0.0.1", 2)
