"""Chooses what to watch of a cluster, and from where kipwatch uses its own topics."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from streaming.broker.cluster import Cluster
from streaming.settings.address import bootstrap_addresses


class Watched(NamedTuple):
    """A listener that is watched: its address as packets have it, its name and its broker.

    The name is empty if the cluster does not tell it. `address` is None if this host does not know the name.
    """

    advertised: str
    address: str | None
    port: int
    name: str
    node_id: int


class Plan(NamedTuple):
    """What is watched. `encrypted` are the ports of the cluster that speak TLS.

    `is_own_watched` says that kipwatch's own topics are used by a watched listener.
    """

    bootstrap: str
    cluster_id: str
    listeners: tuple[Watched, ...]
    encrypted: tuple[int, ...]
    is_own_watched: bool

    @property
    def ports(self) -> list[int]:
        """The watched ports."""
        return sorted({listener.port for listener in self.listeners})

    @property
    def addresses(self) -> list[str]:
        """The addresses of the watched listeners."""
        return [listener.address for listener in self.listeners if listener.address]


def plan(bootstrap: str, cluster: Cluster, resolve: Callable[[str, int], str | None]) -> Plan:
    """Choose every listener that is not encrypted, but not that of `bootstrap` if there are others.

    So kipwatch does not watch itself where the cluster has a listener for it.
    """
    own = {port for _, port in bootstrap_addresses(bootstrap)}
    readable, encrypted = [], set()
    for broker in cluster.brokers:
        for listener in broker.listeners:
            if listener.is_readable:
                readable.append((listener.host, listener.port, listener.name, broker.node_id))
            else:
                encrypted.add(listener.port)
        if not broker.listeners:
            readable.append((broker.host, broker.port, "", broker.node_id))
    others = [each for each in readable if each[1] not in own]
    watched = tuple(
        Watched(host, resolve(host, port), port, name, node_id)
        for host, port, name, node_id in others or readable
    )
    return Plan(bootstrap, cluster.cluster_id, watched, tuple(sorted(encrypted)), not others)
