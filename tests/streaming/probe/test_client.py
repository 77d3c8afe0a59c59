"""The KIP-1313 client follows the KIP, and breaks its rules on request."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from decoders.codec.request import Request, read_request
from decoders.schema.registry import default_schemas
from streaming.probe.client import (
    ATTEMPTS,
    SOFTWARE,
    ConnectionClosedError,
    InstanceClient,
    await_success,
    read_frame,
)
from tests.exchange import ID_A, ID_B

SCHEMAS = default_schemas()
COORDINATOR_NOT_AVAILABLE = 15


@pytest.fixture
def client(listener: socket.socket) -> Iterator[InstanceClient]:
    with InstanceClient(SCHEMAS, listener.getsockname(), "app", ID_A) as connected:
        yield connected


def read(frame: bytes) -> Request:
    request = read_request(SCHEMAS, frame)
    assert request.known and request.failure is None
    return request


def test_the_first_request_names_client_and_instance(client: InstanceClient) -> None:
    first = read(client.frame("ApiVersions", client.newest("ApiVersions"), SOFTWARE))
    assert (first.api_version, first.header_version, first.correlation_id) == (6, 3, 1)
    assert (first.client_id, first.client_instance_id) == ("app", ID_A)


def test_later_requests_have_the_instance_id_alone(client: InstanceClient) -> None:
    client.frame("ApiVersions", 6, SOFTWARE)
    later = read(client.frame("Metadata", 14, {}))
    assert (later.correlation_id, later.client_id, later.client_instance_id) == (2, None, ID_A)


def test_an_older_header_has_the_client_id_in_every_request(client: InstanceClient) -> None:
    for _ in range(2):
        request = read(client.frame("Metadata", 12, {}))
        assert (request.header_version, request.client_id, request.client_instance_id) == (2, "app", None)


def test_the_client_breaks_rules_on_request(client: InstanceClient) -> None:
    client.frame("ApiVersions", 6, SOFTWARE)
    request = read(client.frame("Metadata", 14, {}, client_id="again", instance_id=ID_B))
    assert (request.client_id, request.client_instance_id) == ("again", ID_B)
    assert read(client.frame("Metadata", 14, {}, client_id=None)).client_id is None


def test_an_unknown_api_is_refused(client: InstanceClient) -> None:
    with pytest.raises(ValueError, match="the schemas have no API Nothing"):
        client.newest("Nothing")


def test_a_closed_connection_is_an_error(listener: socket.socket, client: InstanceClient) -> None:
    listener.accept()[0].close()
    with pytest.raises(ConnectionClosedError, match="closed after Metadata v14"):
        client.request("Metadata", {})


@pytest.mark.parametrize(("errors", "is_served"), [(2, True), (ATTEMPTS - 1, True), (ATTEMPTS, False)])
def test_a_coordinator_that_is_being_made_is_asked_again(
    errors: int, is_served: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streaming.probe.client.RETRY", 0.0)
    answers = iter([COORDINATOR_NOT_AVAILABLE] * errors + [0])
    assert await_success(lambda: next(answers)) == is_served


def test_frames_are_read_completely_however_they_arrive() -> None:
    near, far = socket.socketpair()
    with near, far:
        for part in (b"\0\0", b"\0\5he", b"llo", b"\0\0\0\0", b"\0\0\0\3ab"):
            far.sendall(part)
        far.close()
        assert read_frame(near) == b"hello"
        assert read_frame(near) == b""
        assert read_frame(near) is None
