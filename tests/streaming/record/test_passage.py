"""The bytes of a connection through a rewriting relay, however they are cut into chunks."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from decoders.codec.response import write_response
from decoders.frame.record import Direction
from decoders.schema.registry import default_schemas
from streaming.record.passage import MAX_IN_FLIGHT, RewritingPassage
from streaming.record.rewriting import Address
from tests.decoders.wire.conversation import prefixed

SCHEMAS = default_schemas()
CHUNKS = st.lists(st.integers(1, 60), max_size=40)


def replace(address: Address) -> Address:
    return "127.0.0.1", address[1] + 1


def passage(warnings: list[str] | None = None) -> RewritingPassage:
    return RewritingPassage(SCHEMAS, replace, ([] if warnings is None else warnings).append)


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
            passed += way.process(direction, chunk)
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
