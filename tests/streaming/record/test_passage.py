"""The bytes of a connection through a rewriting relay, however they are cut into chunks."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from decoders.codec.response import write_response
from decoders.frame.record import Direction
from decoders.schema.registry import default_schemas
from streaming.record.passage import MOST_AWAITED, RewritingPassage
from streaming.record.rewriting import Address
from tests.decoders.wire.conversation import prefixed

SCHEMAS = default_schemas()
CHUNKS = st.lists(st.integers(1, 60), max_size=40)


def replace(address: Address) -> Address:
    return "127.0.0.1", address[1] + 1


def passage(complaints: list[str] | None = None) -> RewritingPassage:
    return RewritingPassage(SCHEMAS, replace, ([] if complaints is None else complaints).append)


def request(key: int, version: int, correlation_id: int) -> bytes:
    return prefixed(struct.pack(">hhi", key, version, correlation_id) + bytes(20))


def metadata(correlation_id: int, host: str, port: int) -> bytes:
    brokers = [{"nodeId": 1, "host": host, "port": port}]
    return prefixed(write_response(SCHEMAS, "Metadata", 12, correlation_id, {"brokers": brokers}))


def through(way: RewritingPassage, direction: Direction, data: bytes, sizes: list[int]) -> bytes:
    """Pass bytes in chunks of the sizes given, and the rest at once."""
    passed, at = b"", 0
    for size in [*sizes, len(data)]:
        if chunk := data[at : at + size]:
            passed += way.take(direction, chunk)
        at += size
    return passed + way.end(direction)


@given(CHUNKS, CHUNKS)
def test_addresses_are_replaced_whatever_the_chunks(asked: list[int], told: list[int]) -> None:
    way = passage()
    requests = request(3, 12, 1) + request(18, 3, 2) + request(3, 12, 3)
    other = prefixed(struct.pack(">i", 2) + bytes(300))
    answers = metadata(1, "a-long-name.example", 9092) + other + metadata(3, "b", 1)
    assert through(way, Direction.TO_BROKER, requests, asked) == requests
    rewritten = metadata(1, "127.0.0.1", 9093) + other + metadata(3, "127.0.0.1", 2)
    assert through(way, Direction.TO_CLIENT, answers, told) == rewritten


@given(st.binary(max_size=200), CHUNKS)
def test_what_is_no_kafka_passes_unchanged(data: bytes, sizes: list[int]) -> None:
    for direction in (Direction.TO_BROKER, Direction.TO_CLIENT):
        assert through(passage(), direction, data, sizes) == data


def test_an_answer_that_cannot_be_read_passes_and_is_complained_of() -> None:
    complaints: list[str] = []
    way = passage(complaints)
    way.take(Direction.TO_BROKER, request(3, 12, 1))
    broken = prefixed(struct.pack(">i", 1) + b"\xff" * 20)
    assert way.take(Direction.TO_CLIENT, broken) == broken
    assert len(complaints) == 1
    assert "without the relay" in complaints[0]


def test_requests_that_are_never_answered_are_not_kept_for_ever() -> None:
    way = passage()
    for number in range(MOST_AWAITED + 1):
        way.take(Direction.TO_BROKER, request(3, 12, number))
    first, last = metadata(0, "a", 1), metadata(MOST_AWAITED, "a", 1)
    assert way.take(Direction.TO_CLIENT, first) == first
    assert way.take(Direction.TO_CLIENT, last) == metadata(MOST_AWAITED, "127.0.0.1", 2)
