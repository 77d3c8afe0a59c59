"""A login, and requests that no client would send, for the scenarios."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from streaming.probe import connection
from streaming.probe.client import JOIN, ConnectionClosedError, InstanceClient, heartbeat_of
from tests.scenarios.stage import PASSWORD, USER


def authenticate(client: InstanceClient, version: int = 2) -> None:
    """Shake hands and log in by SASL/PLAIN, for the first time or again."""
    assert connection.authenticate(client, connection.Login("PLAIN", USER, PASSWORD), version)


def send_as_version(client: InstanceClient, api: str, written: int, claimed: int, **body: Any) -> None:
    """Send a request that claims another version than the one it is written in."""
    frame = client.frame(api, written, body)
    claimed_bytes = claimed.to_bytes(2, signed=True)
    with suppress(ConnectionClosedError):
        client.exchange(frame[:2] + claimed_bytes + frame[4:], api, claimed)


def send_without_reading(client: InstanceClient, member_id: str, version: int) -> None:
    """Join a group without reading the response."""
    api = "ConsumerGroupHeartbeat"
    client.send(client.frame(api, version, heartbeat_of(member_id, JOIN, api)))
