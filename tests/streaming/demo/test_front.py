"""The front holds a connection to the KIP's rules, and what it refuses never reaches the broker.

The upstream here has hung up and answers nothing: enough where the front decides by itself. That it
makes a real broker speak KIP-1313 is shown by the test of the whole road.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from decoders.codec.request import write_request
from decoders.codec.response import read_response
from decoders.schema.registry import default_schemas
from streaming.demo.front import FrontConnection
from tests.exchange import ID_A, ID_B, SOFTWARE, ZERO_ID

SCHEMAS = default_schemas()
INVALID_REQUEST = 42
HEARTBEAT = {"groupId": "g", "memberId": "m", "memberEpoch": 1}


class Fronted:
    """A connection through the front, and what of it reached the broker."""

    def __init__(self, near: socket.socket, far: socket.socket) -> None:
        self._connection = FrontConnection(SCHEMAS, near)
        self._far = far

    def ask(self, frame: bytes) -> bytes | None:
        return self._connection.answer(frame)

    def reached(self) -> bytes:
        """The bytes forwarded since the last call."""
        try:
            return self._far.recv(1 << 16)
        except BlockingIOError:
            return b""


@pytest.fixture
def fronted() -> Iterator[Fronted]:
    near, far = socket.socketpair()
    with near, far:
        far.setblocking(False)
        far.shutdown(socket.SHUT_WR)
        yield Fronted(near, far)


def request(api: str, version: int, instance_id: bytes | None = None, **body: Any) -> bytes:
    return write_request(SCHEMAS, api, version, 7, "app", body, client_instance_id=instance_id)


def heartbeat(instance_id: bytes) -> bytes:
    return request("ConsumerGroupHeartbeat", 2, instance_id, **HEARTBEAT)


def opened(fronted: Fronted, instance_id: bytes) -> None:
    """Begin with an ID; the request is let through."""
    fronted.ask(request("ApiVersions", 6, instance_id, **SOFTWARE))
    assert fronted.reached()


def refused(fronted: Fronted, frame: bytes, api_key: int, version: int) -> bool:
    answer = fronted.ask(frame)
    if fronted.reached() or answer is None:
        return False
    body = read_response(SCHEMAS, answer, api_key, version).body or {}
    return bool(body["errorCode"] == INVALID_REQUEST)


def test_another_instance_id_is_refused(fronted: Fronted) -> None:
    opened(fronted, ID_A)
    assert refused(fronted, heartbeat(ID_B), 68, 2)


def test_a_missing_instance_id_is_refused(fronted: Fronted) -> None:
    opened(fronted, ID_A)
    assert refused(fronted, heartbeat(ZERO_ID), 68, 2)


def test_an_older_header_is_refused_once_the_connection_has_an_id(fronted: Fronted) -> None:
    opened(fronted, ID_A)
    assert refused(fronted, request("ConsumerGroupHeartbeat", 1, **HEARTBEAT), 68, 1)


def test_sasl_handshake_is_let_through_without_an_id(fronted: Fronted) -> None:
    """It has no place for one."""
    opened(fronted, ID_A)
    frame = request("SaslHandshake", 1, mechanism="PLAIN")
    fronted.ask(frame)
    assert fronted.reached().endswith(frame)


def test_the_same_instance_id_is_let_through_lowered(fronted: Fronted) -> None:
    opened(fronted, ID_A)
    fronted.ask(heartbeat(ID_A))
    assert fronted.reached()[4:] == request("ConsumerGroupHeartbeat", 1, **HEARTBEAT)


def test_the_client_id_of_the_first_request_stands_for_all(fronted: Fronted) -> None:
    """KIP-1313 clients name it once; the broker of today wants it in each."""
    opened(fronted, ID_A)
    later = write_request(SCHEMAS, "ConsumerGroupHeartbeat", 2, 7, None, HEARTBEAT, client_instance_id=ID_A)
    fronted.ask(later)
    assert fronted.reached()[4:] == request("ConsumerGroupHeartbeat", 1, **HEARTBEAT)


def test_a_connection_that_began_with_zero_is_held_to_nothing(fronted: Fronted) -> None:
    """There is no ID that a later one could differ from."""
    opened(fronted, ZERO_ID)
    fronted.ask(heartbeat(ID_B))
    assert fronted.reached()


def test_an_id_that_first_comes_later_binds_nobody(fronted: Fronted) -> None:
    """The KIP speaks of the first request."""
    fronted.ask(request("ApiVersions", 4, **SOFTWARE))
    assert fronted.reached()
    for instance_id in (ID_A, ID_B):
        fronted.ask(heartbeat(instance_id))
        assert fronted.reached()


def test_a_refusal_that_no_answer_can_carry_closes_the_connection(fronted: Fronted) -> None:
    """The answer to FindCoordinator has an error for each key, but none of its own."""
    opened(fronted, ID_A)
    assert fronted.ask(request("FindCoordinator", 7, ID_B, keyType=0, coordinatorKeys=["g"])) is None
    assert not fronted.reached()
