"""Streams of packets that make a feeder keep as much as a stranger can make it keep."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from decoders.codec.request import write_request
from decoders.frame.record import Direction
from decoders.schema.registry import default_schemas
from decoders.wire.segment import Packet, SocketAddress
from decoders.wire.synthesis import SyntheticConnection
from tests.copied_connections import CLIENT, copies, file_header

SERVER: Final = SocketAddress(bytes([10, 0, 0, 2]), 9092)
MIXED: Final = 200
ANNOUNCED: Final = 100 * 1024 * 1024 - 1
"""Bytes of a frame that is never completed; brokers accept no larger one."""
_TO_BROKER: Final = Direction.TO_BROKER

Stream = Callable[[SyntheticConnection], list[Packet]]
"""Writes one connection, which is then copied."""


def many(stream: Stream, connections: int, first: int, mixed: int = MIXED) -> Iterator[bytes]:
    """Yield a capture of so many connections of a kind, whose clients are numbered from `first` on.

    The packets of `mixed` connections are captured in turns.
    """
    connection = SyntheticConnection(CLIENT, SERVER)
    packets = connection.opened(0) + stream(connection)
    yield file_header()
    for number in range(first, first + connections, mixed):
        yield copies(packets, number + np.arange(mixed), 10**18 + number * 10**6)


def idle(_: SyntheticConnection) -> list[Packet]:
    """An opened connection without data."""
    return []


def complete(connection: SyntheticConnection) -> list[Packet]:
    """Ten requests of a kilobyte, whose records wait for Kafka; then the connection is closed."""
    packets = [packet for number in range(10) for packet in _sent(connection, _metadata(number, "t" * 900))]
    return packets + connection.finished(0, _TO_BROKER) + connection.finished(0, Direction.TO_CLIENT)


def in_flight(connection: SyntheticConnection) -> list[Packet]:
    """A hundred requests that get no response."""
    return [packet for number in range(100) for packet in _sent(connection, _metadata(number))]


def unfinished(size: int, piece: int) -> Stream:
    """Return a stream with `size` bytes of a frame that announces more, sent piece by piece."""

    def stream(connection: SyntheticConnection) -> list[Packet]:
        begun = struct.pack(">ihhih", ANNOUNCED, 0, 9, 1, 3).ljust(size, b"x")
        pieces = [begun[start : start + piece] for start in range(0, size, piece)]
        return [packet for each in pieces for packet in connection.sent(0, _TO_BROKER, each)]

    return stream


def with_holes(connection: SyntheticConnection) -> list[Packet]:
    """Pieces of a byte, every other one of which is not captured."""
    packets = list[Packet]()
    for _ in range(50):
        connection.sent(0, _TO_BROKER, b"y")
        packets += connection.sent(0, _TO_BROKER, b"x")
    return packets


def _sent(connection: SyntheticConnection, frame: bytes) -> list[Packet]:
    return connection.sent(0, _TO_BROKER, struct.pack(">i", len(frame)) + frame)


def _metadata(number: int, topic: str = "t") -> bytes:
    return write_request(default_schemas(), "Metadata", 12, number, "client", {"topics": [{"name": topic}]})
