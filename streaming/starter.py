"""`kipwatch init`: plans what to watch of a cluster, and writes the configuration of feeders and query.

The plan watches every listener that is not encrypted, except the one that kipwatch's own topics use, if there
are others. If they share a listener, what the query fetches would be captured again, so the feeders exclude
the query's host. Addresses of this host tell which interfaces to capture on.
"""

from __future__ import annotations

import fcntl
import json
import socket
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from streaming.broker.cluster import Cluster
from streaming.settings.address import address_text, bootstrap_addresses
from streaming.settings.kafka_client import Setting

_SIOCGIFADDR: Final = 0x8915
"""Of linux/sockios.h: the IPv4 address of an interface."""
_IPV6_ADDRESSES: Final = Path("/proc/net/if_inet6")
LOOPBACK: Final = "lo"


class Watched(NamedTuple):
    """A watched listener. `advertised` is its host as brokers advertise it, `address` as packets have it.

    `address` is None if this host cannot resolve `advertised`. `name` is "" if the cluster does not say it.
    """

    advertised: str
    address: str | None
    port: int
    name: str
    node_id: int


class Plan(NamedTuple):
    """What to watch. `encrypted` are the cluster's ports that speak TLS.

    If `is_own_watched`, kipwatch reaches its own topics by a watched listener.
    """

    bootstrap: str
    cluster_id: str
    listeners: tuple[Watched, ...]
    encrypted: tuple[int, ...]
    is_own_watched: bool

    @property
    def ports(self) -> list[int]:
        return sorted({listener.port for listener in self.listeners})

    @property
    def addresses(self) -> list[str]:
        """The addresses of the watched listeners."""
        return [listener.address for listener in self.listeners if listener.address]


def plan(bootstrap: str, cluster: Cluster, resolve: Callable[[str, int], str | None]) -> Plan:
    """Choose every listener that is not encrypted, without that of `bootstrap` if there are others."""
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


def resolved(host: str, port: int) -> str | None:
    """Return the address of a host name, as packets have it; None if it is unknown here."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return None
    return str(found[0][4][0])


def interfaces_with(addresses: Collection[str]) -> list[str]:
    """Return the interfaces of this host that have one of the addresses, and then `lo`.

    Clients on this host reach each of its addresses by `lo`.
    """
    found = sorted({name for name, address in _own() if address in addresses} - {LOOPBACK})
    is_here = found or any(address.startswith("127.") or address == "::1" for address in addresses)
    return [*found, LOOPBACK] if is_here else []


def address_towards(host: str, port: int) -> str | None:
    """Return the address of this host that connections to another host come from. Sends nothing."""
    try:
        family, kind, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    except OSError:
        return None


def _own() -> Iterator[tuple[str, str]]:
    """Yield each address of this host with its interface."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("256s", name.encode()))
            except OSError:
                continue
            yield name, socket.inet_ntoa(answer[20:24])
    if _IPV6_ADDRESSES.exists():
        for line in _IPV6_ADDRESSES.read_text().splitlines():
            packed, *_, name = line.split()
            yield name, socket.inet_ntop(socket.AF_INET6, bytes.fromhex(packed))


def feeder_file(
    plan: Plan, kafka: Mapping[str, Setting], interfaces: Sequence[str], query_host: str | None
) -> str:
    """Return the TOML file of the feeders.

    `interfaces` are those of this host with an address of a broker, empty if it is no broker. `query_host` is
    the address of the query's host, None if feeders cannot exclude it.
    """
    lines = [
        "# The feeder captures packets beside a broker. Use this file on the host of each broker:",
        "#     kipwatch feed --config feeder.toml",
        "",
        "# Kafka for kipwatch's own topics.",
        f"bootstrap = {_text(plan.bootstrap)}",
        "",
        "# A name for this feeder, different on each host, at most 24 bytes.",
        'feeder = "feeder-1"',
        "# A name for the watched cluster, at most 24 bytes.",
        'cluster = "kafka"',
        "",
        *_interfaces(interfaces),
        "",
        "# The listeners that are watched.",
        f"ports = {_list(map(str, plan.ports))}",
        *map(_encrypted, plan.encrypted),
        "",
        "# /metrics, /healthz and /readyz. For Prometheus on another host: 0.0.0.0:9107",
        'feeder_metrics_address = "127.0.0.1:9107"',
        *_exclusion(plan, query_host),
        *_kafka(kafka),
    ]
    return "\n".join(lines) + "\n"


def query_file(plan: Plan, kafka: Mapping[str, Setting], checkpoint: Path, query_host: str | None) -> str:
    """Return the TOML file of the query. `query_host` is as in `feeder_file`."""
    lines = [
        "# The query decodes and judges what the feeders publish:",
        "#     kipwatch run --config query.toml",
        "",
        "# Kafka for kipwatch's own topics.",
        f"bootstrap = {_text(plan.bootstrap)}",
        "# The ports that the feeders watch.",
        f"ports = {_list(map(str, plan.ports))}",
        *_permission(plan, query_host),
        "",
        "# What the query remembers. Keep it on a disk that outlives the process.",
        f"checkpoint = {_text(str(checkpoint))}",
        "",
        "# /metrics, /healthz, /readyz, and the page /, which shows findings.",
        "# For Prometheus on another host: 0.0.0.0:9108",
        'metrics_address = "127.0.0.1:9108"',
        *_kafka(kafka),
        "",
        "# The topics are created with these settings if they do not exist.",
        "[topics.frames]",
        "partitions = 2",
        "retention_hours = 24",
        "",
        "[topics.findings]",
        "retention_hours = 720",
        "",
        "# The brokers. No frame contains a listener's name; KIP-1242 is judged by cluster and node.",
    ]
    for listener in plan.listeners:
        lines += _listener(plan, listener)
    return "\n".join(lines) + "\n"


def _encrypted(port: int) -> str:
    return (
        f"# Port {port} carries TLS. To watch it, add it here and name its key log: tls_keylog (docs/tls.md)"
    )


def _interfaces(names: Sequence[str]) -> list[str]:
    if names:
        return [
            "# The interfaces by which clients reach this broker. Those on this host come by lo.",
            f"interface = {_list(map(_text, names))}",
        ]
    return [
        "# This host is no broker. On a broker, name the interfaces by which clients reach it:",
        "# `ip address` lists them. Clients on the broker's own host come by lo.",
        'interface = ["eth0", "lo"]',
    ]


def _exclusion(plan: Plan, query_host: str | None) -> list[str]:
    if not plan.is_own_watched:
        return []
    lines = [
        "",
        "# kipwatch's topics are on a watched listener: what the query fetches would be captured again.",
        "# So the host that the query runs on is excluded.",
    ]
    if query_host is None:
        return [
            *lines,
            "# Its address is not known, or it is a broker. Give kipwatch a listener of its own, or run the",
            "# query on another host: write its address here, and allow_watched_bootstrap in query.toml.",
            "# [[exclude]]",
            '# address = "192.0.2.1"',
        ]
    return [*lines, "[[exclude]]", f"address = {_text(query_host)}"]


def _permission(plan: Plan, query_host: str | None) -> list[str]:
    """Return the permission to read from a watched listener, active only if the feeders exclude the query."""
    if not plan.is_own_watched:
        return []
    if query_host is None:
        return [
            "# The query refuses to read from a watched port. Allow it once feeder.toml excludes this host.",
            "# allow_watched_bootstrap = true",
        ]
    return [
        f"# The query may read from a watched port: feeder.toml excludes its host, {query_host}.",
        "allow_watched_bootstrap = true",
    ]


def _kafka(settings: Mapping[str, Setting]) -> list[str]:
    if not settings:
        return []
    # A boolean, number or text of JSON is one of TOML, too.
    return ["", "[kafka]", *(f"{_text(name)} = {json.dumps(value)}" for name, value in settings.items())]


def _listener(plan: Plan, listener: Watched) -> list[str]:
    lines = [""]
    if listener.address is None:
        lines.append(f"# This host does not know {listener.advertised}: write the address for the name.")
    host = listener.address or listener.advertised
    lines += ["[[listener]]", f"address = {_text(address_text(host, listener.port))}"]
    lines += [f"name = {_text(listener.name)}"] if listener.name else []
    return [*lines, f"cluster_id = {_text(plan.cluster_id)}", f"node_id = {listener.node_id}"]


def _list(texts: Iterable[str]) -> str:
    return f"[{', '.join(texts)}]"


def _text(value: str) -> str:
    return json.dumps(value)
