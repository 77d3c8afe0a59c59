"""SASL as the scenarios' clients speak it: PLAIN, in Kafka's own requests."""

from __future__ import annotations

import base64

from streaming.demo.instance_client import InstanceClient
from tests.scenarios.stage import PASSWORD, USER


def authenticate(client: InstanceClient, version: int = 2) -> None:
    """Shake hands and authenticate, for the first time or again."""
    assert client.request("SaslHandshake", {"mechanism": "PLAIN"}, version=1)["errorCode"] == 0
    token = base64.b64encode(f"\0{USER}\0{PASSWORD}".encode()).decode()
    assert client.request("SaslAuthenticate", {"authBytes": token}, version=version)["errorCode"] == 0
