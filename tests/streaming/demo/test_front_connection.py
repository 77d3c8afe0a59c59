"""A connection through the front: the KIP's rules are enforced, and requests lowered.

What the front refuses never reaches the broker.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from decoders.codec.request import write_request
from decoders.codec.response import read_response, write_response
from decoders.protocol import INVALID_REQUEST
from decoders.schema.registry import default_schemas
from streaming.demo.front import (
    FrontConnection,
)
from tests.exchange import ID_A, ID_B, SOFTWARE, ZERO_ID

SCHEMAS = default_schemas()
HEARTBEAT: dict[str, Any] = {"groupId": "g", "memberId": "m", "memberEpoch": 1}


class Fronted:
    """A connection through the front, and the bytes that reached the broker."""

    def __init__(self, near: socket.socket, far: socket.socket) -> None:
        self._connection = FrontConnection(SCHEMAS, near)
        self._far = far

    def send(self, frame: bytes) -> bytes | None:
        return self._connection.respond(frame)

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
    """Begin with an instance ID; the request is forwarded."""
    fronted.send(request("ApiVersions", 6, instance_id, **SOFTWARE))
    assert fronted.reached()


def refused(fronted: Fronted, frame: bytes, api_key: int, version: int) -> bool:
    response = fronted.send(frame)
    if fronted.reached() or response is None:
        return False
    body = read_response(SCHEMAS, response, api_key, version).body or {}
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


def test_sasl_handshake_is_forwarded_without_an_id(fronted: Fronted) -> None:
    """SaslHandshake has no field for it."""
    opened(fronted, ID_A)
    frame = request("SaslHandshake", 1, mechanism="PLAIN")
    fronted.send(frame)
    assert fronted.reached().endswith(frame)


def test_the_same_instance_id_is_forwarded_lowered(fronted: Fronted) -> None:
    opened(fronted, ID_A)
    fronted.send(heartbeat(ID_A))
    assert fronted.reached()[4:] == request("ConsumerGroupHeartbeat", 1, **HEARTBEAT)


def test_the_client_id_of_the_first_request_is_sent_in_all(fronted: Fronted) -> None:
    """KIP-1313 clients send it once; released brokers expect it in each request."""
    opened(fronted, ID_A)
    later = write_request(SCHEMAS, "ConsumerGroupHeartbeat", 2, 7, None, HEARTBEAT, client_instance_id=ID_A)
    fronted.send(later)
    assert fronted.reached()[4:] == request("ConsumerGroupHeartbeat", 1, **HEARTBEAT)


def test_after_a_zero_id_any_id_is_forwarded(fronted: Fronted) -> None:
    """No later ID can differ from it."""
    opened(fronted, ZERO_ID)
    fronted.send(heartbeat(ID_B))
    assert fronted.reached()


def test_an_id_after_the_first_request_is_not_enforced(fronted: Fronted) -> None:
    """The KIP is about the ID of the first request."""
    fronted.send(request("ApiVersions", 4, None, **SOFTWARE))
    assert fronted.reached()
    for instance_id in (ID_A, ID_B):
        fronted.send(heartbeat(instance_id))
        assert fronted.reached()


def test_a_refusal_without_an_error_field_closes_the_connection(fronted: Fronted) -> None:
    """The response to FindCoordinator has an error for each key, and none of its own."""
    opened(fronted, ID_A)
    assert fronted.send(request("FindCoordinator", 7, ID_B, keyType=0, coordinatorKeys=["g"])) is None
    assert not fronted.reached()


class Upstream:
    """A connection through the front to a broker that responds with given frames."""

    def __init__(self, near: socket.socket, far: socket.socket) -> None:
        self.connection = FrontConnection(SCHEMAS, near)
        self._far = far

    def respond(self, api: str, version: int, body: dict[str, Any]) -> None:
        """Let the broker respond to the next request."""
        frame = write_response(SCHEMAS, api, version, 7, body)
        self._far.sendall(len(frame).to_bytes(4) + frame)


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    near, far = socket.socketpair()
    with near, far:
        yield Upstream(near, far)


def test_every_api_that_the_broker_advertises_is_offered_on_header_v3(upstream: Upstream) -> None:
    """Also InitProducerId, whose newest version before header v3 is unstable, so that brokers hide it."""
    upstream.respond("ApiVersions", 5, {"apiKeys": [{"apiKey": 22, "minVersion": 0, "maxVersion": 5}]})
    offered = upstream.connection.respond(request("ApiVersions", 6, ID_A, **SOFTWARE))
    assert offered is not None
    body = read_response(SCHEMAS, offered, 18, 6).body or {}
    assert {entry["apiKey"]: entry["maxVersion"] for entry in body["apiKeys"]}[22] == 7
    upstream.respond("InitProducerId", 5, {"producerId": 9, "producerEpoch": 1})
    response = upstream.connection.respond(request("InitProducerId", 7, ID_A, transactionalId="orders"))
    assert response is not None
    assert (read_response(SCHEMAS, response, 22, 7).body or {})["producerId"] == 9


def test_a_version_outside_the_offered_range_closes_the_connection(upstream: Upstream) -> None:
    listed = {"apiKeys": [{"apiKey": 10, "minVersion": 4, "maxVersion": 6}]}
    upstream.respond("ApiVersions", 5, listed)
    assert upstream.connection.respond(request("ApiVersions", 5, None, **SOFTWARE))
    assert upstream.connection.respond(request("FindCoordinator", 3, key="g")) is None
