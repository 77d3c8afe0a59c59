"""SASL as the scenarios' clients speak it: PLAIN, in Kafka's own requests."""

from __future__ import annotations

from streaming.probe import connection
from streaming.probe.client import InstanceClient
from tests.scenarios.stage import PASSWORD, USER


def authenticate(client: InstanceClient, version: int = 2) -> None:
    """Shake hands and authenticate, for the first time or again."""
    assert connection.authenticate(client, connection.Login("PLAIN", USER, PASSWORD), version)
