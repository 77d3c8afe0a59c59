"""Packets of clients and brokers that send what harms a careless observer, each in its own way."""

from __future__ import annotations

import itertools
import random
import struct
from collections.abc import Callable, Iterator
from typing import Any, Final

from decoders.codec.request import write_request
from decoders.codec.response import write_response
from decoders.frame.record import Direction
from decoders.schema.registry import default_schemas
from decoders.wire.segment import Packet, SocketAddress
from decoders.wire.synthesis import SyntheticConnection
from tests.exchange import SOFTWARE, advertisement

BROKER: Final = SocketAddress(bytes([10, 66, 0, 2]), 9092)
LONGEST: Final = 32_766
"""The most characters that Kafka's strings can have, less one for those that count a null."""
_SCHEMAS: Final = default_schemas()
_BEGIN: Final = 1_000_000_000_000_000_000
_SECOND: Final = 1_000_000_000
_MEMBERS: Final = 40
_DISTINCT_PER_LONG: Final = 25

Bytes = tuple[Direction, bytes]
"""A direction and the bytes that go there."""


def hostile_packets(connections: int) -> Iterator[Packet]:
    """Yield the packets of a number of connections, of every kind in turn, one after the other.

    Of each kind that sends large strings there is one connection among `_DISTINCT_PER_LONG` others.
    """
    kinds = [_distinct_names] * _DISTINCT_PER_LONG + list(_KINDS)
    for number in range(connections):
        seed = random.Random(number)
        yield from _connection(number, kinds[number % len(kinds)](number, seed))


def _connection(number: int, sent: Iterator[Bytes]) -> Iterator[Packet]:
    at = _BEGIN + number * _SECOND // 1_000
    address = bytes([10, 66, 1 + number // 60_000, number // 250 % 250])
    client = SocketAddress(address, 1_024 + number % 60_000)
    connection = SyntheticConnection(client, BROKER)
    yield from connection.opened(at)
    for direction, data in sent:
        at += _SECOND // 1_000
        yield from connection.sent(at, direction, data)
    yield from connection.finished(at, Direction.TO_BROKER)
    yield from connection.finished(at, Direction.TO_CLIENT)


def _distinct_names(number: int, seed: random.Random) -> Iterator[Bytes]:
    """Each connection is another software, client, instance and member."""
    name = f"software-{seed.getrandbits(64):x}"
    software = {"clientSoftwareName": name, "clientSoftwareVersion": f"1.{number}"}
    yield from _negotiation(name, software)
    heartbeat = {"groupId": f"group-{number}", "memberId": f"member-{seed.random()}", "memberEpoch": 0}
    yield _request("ConsumerGroupHeartbeat", 1, 2, name, heartbeat)


def _longest_strings(number: int, seed: random.Random) -> Iterator[Bytes]:
    """Client ID, software name, version, group and member are as long as they can be, and malformed."""
    long = "\x01" * LONGEST
    software = {"clientSoftwareName": long, "clientSoftwareVersion": long}
    yield from _negotiation(long, software)
    for correlation_id in range(2, 4):
        unlike = f"{correlation_id}{number}".ljust(LONGEST, "\x02")
        heartbeat = {"groupId": unlike, "memberId": unlike, "memberEpoch": 0, "instanceId": unlike}
        yield _request("ConsumerGroupHeartbeat", 1, correlation_id, unlike, heartbeat)


def _many_members(number: int, seed: random.Random) -> Iterator[Bytes]:
    """One connection beats for ever new members."""
    for correlation_id in range(_MEMBERS):
        heartbeat = {"groupId": "crowd", "memberId": f"{seed.random()}", "memberEpoch": 0}
        yield _request("ConsumerGroupHeartbeat", 1, correlation_id, "crowd", heartbeat)


def _announced_and_dribbled(number: int, seed: random.Random) -> Iterator[Bytes]:
    """A frame of just under 100 MiB is announced; a few bytes of it come, each in its own segment."""
    yield Direction.TO_BROKER, struct.pack(">i", 100 * 1024 * 1024 - 1)
    for byte in struct.pack(">hhih", 0, 9, 1, 3) + b"abc":
        yield Direction.TO_BROKER, bytes([byte])


def _responses_alone(number: int, seed: random.Random) -> Iterator[Bytes]:
    """The broker responds to requests that nobody sent."""
    yield from _negotiation("alone", SOFTWARE)
    for correlation_id in range(100, 140):
        yield Direction.TO_CLIENT, _prefixed(write_response(_SCHEMAS, "Metadata", 12, correlation_id, {}))


def _deep_arrays(number: int, seed: random.Random) -> Iterator[Bytes]:
    """Thousands of elements, and an array that claims two thousand million."""
    topics = [{"name": f"topic-{count}"} for count in range(3_000)]
    yield _request("Metadata", 12, 1, "deep", {"topics": topics})
    lead = struct.pack(">hhih", 3, 8, 2, -1)
    yield Direction.TO_BROKER, _prefixed(lead + struct.pack(">i", 2**31 - 1))


def _noise(number: int, seed: random.Random) -> Iterator[Bytes]:
    for _ in range(8):
        yield Direction.TO_BROKER, _prefixed(seed.randbytes(200))


def _nothing(number: int, seed: random.Random) -> Iterator[Bytes]:
    """The connection is closed as soon as it is open."""
    yield from itertools.repeat((Direction.TO_BROKER, b""), 0)


_KINDS: Final[tuple[Callable[[int, random.Random], Iterator[Bytes]], ...]] = (
    _longest_strings,
    _many_members,
    _announced_and_dribbled,
    _responses_alone,
    _deep_arrays,
    _noise,
    _nothing,
)


def _negotiation(client_id: str, software: Any) -> Iterator[Bytes]:
    yield _request("ApiVersions", 3, 1, client_id, software)
    yield Direction.TO_CLIENT, _prefixed(write_response(_SCHEMAS, "ApiVersions", 3, 1, advertisement()))


def _request(api: str, version: int, correlation_id: int, client_id: str, body: Any) -> Bytes:
    frame = write_request(_SCHEMAS, api, version, correlation_id, client_id, body)
    return Direction.TO_BROKER, _prefixed(frame)


def _prefixed(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame
