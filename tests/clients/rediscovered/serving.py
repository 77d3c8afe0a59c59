"""Starts what the program of a bug connects to: a real broker or a scripted one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.clients.rediscovered.bug import Server
from tests.clients.rediscovered.scripted import scripted
from tests.clients.releases import ReleasedBroker


@contextmanager
def serving(server: Server) -> Iterator[int]:
    """Yield the port to connect to and to capture."""
    if server.release:
        with ReleasedBroker(server.release) as broker:
            yield broker.ports.watched
    else:
        with scripted(server) as port:
            yield port
