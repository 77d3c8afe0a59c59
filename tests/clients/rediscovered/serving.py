"""Starts what the program of a bug connects to: a real broker, a scripted one, or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from streaming.broker.ports import free_ports
from tests.clients.rediscovered.bug import Server
from tests.clients.rediscovered.scripted import scripted
from tests.clients.releases import ReleasedBroker


@contextmanager
def serving(server: Server) -> Iterator[int]:
    """Yield the port to connect to and to capture. If the server is the program's own, nobody listens yet."""
    if server.release:
        with ReleasedBroker(server.release) as broker:
            yield broker.ports.watched
    elif server.own:
        yield free_ports(1)[0]
    else:
        with scripted(server) as port:
            yield port
