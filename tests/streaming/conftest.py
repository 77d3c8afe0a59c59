"""A server on loopback for tests of several rooms."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A socket that listens on loopback, and waits at most 5 s for a connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(5)
        yield server
