"""Clients of a million names: each request has a software, client, member and instance ID of its own."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from decoders.codec.request import write_request
from decoders.codec.response import write_response
from decoders.frame.record import Direction
from decoders.schema.registry import default_schemas
from decoders.wire.segment import Packet, SocketAddress
from decoders.wire.synthesis import SyntheticConnection
from tests.copied_connections import CLIENT, NUMBER, copies, file_header
from tests.exchange import advertisement

BROKER: Final = SocketAddress(bytes([10, 67, 0, 2]), 9092)
NAMES_OF_CONNECTION: Final = 10
CONNECTIONS_OF_BLOCK: Final = 100
FRAMES_OF_NAME: Final = 2
"""Requests that say a name; one response a connection comes on top."""
NAMES_OF_BLOCK: Final = NAMES_OF_CONNECTION * CONNECTIONS_OF_BLOCK
STAYS_OPEN: Final = 10
"""Of so many blocks, the connections of one are never closed."""
ENDINGS: Final = 2
"""Packets that close a connection."""


def capture(names: int, begin: int, interval: int) -> Iterator[bytes]:
    """Yield a capture in pieces: its header, then NAMES_OF_BLOCK names at a time.

    The first piece begins at `begin`, each later one `interval` after the one before, in nanoseconds.
    """
    yield file_header()
    packets = _packets_of_connection()
    for number in range(names // NAMES_OF_BLOCK):
        sent = packets[:-ENDINGS] if number % STAYS_OPEN == 0 else packets
        connections = number * CONNECTIONS_OF_BLOCK + np.arange(CONNECTIONS_OF_BLOCK)
        yield copies(sent, connections, begin + number * interval, partial(_names, connections))


def _names(connections: NDArray[np.int64], request: int) -> NDArray[np.int64]:
    """Return the number of the name that a request of each connection says: two requests say one."""
    return connections * NAMES_OF_CONNECTION + request // 2


def _packets_of_connection() -> list[Packet]:
    """Return a connection's packets, the last ENDINGS of which close it, with NUMBER in place of numbers."""
    connection = SyntheticConnection(CLIENT, BROKER)
    packets = connection.opened(0)
    for turn in range(NAMES_OF_CONNECTION):
        for direction, frame in _turn(turn):
            packets += connection.sent(0, direction, struct.pack(">i", len(frame)) + frame)
    packets += connection.finished(0, Direction.TO_BROKER)
    return packets + connection.finished(0, Direction.TO_CLIENT)


def _turn(turn: int) -> Iterator[tuple[Direction, bytes]]:
    schemas, number = default_schemas(), NUMBER.decode()
    client_id = f"client-{number}"
    software = {"clientSoftwareName": f"software-{number}", "clientSoftwareVersion": f"1.{number}"}
    instance = b"hostile--" + NUMBER
    yield (
        Direction.TO_BROKER,
        write_request(schemas, "ApiVersions", 6, 2 * turn, client_id, software, instance),
    )
    if turn == 0:
        yield Direction.TO_CLIENT, write_response(schemas, "ApiVersions", 6, 0, advertisement())
    heartbeat: dict[str, Any] = {
        "groupId": f"group-{number}",
        "memberId": f"hostile-member{number}A",
        "instanceId": f"instance-{number}",
        "memberEpoch": 0,
    }
    yield (
        Direction.TO_BROKER,
        write_request(schemas, "ConsumerGroupHeartbeat", 1, 2 * turn + 1, client_id, heartbeat),
    )
