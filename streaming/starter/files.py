"""The configuration files that `kipwatch init` writes: one of the feeders, one of the query."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from streaming.settings.address import address_text
from streaming.settings.kafka_client import Setting
from streaming.starter.plan import Plan, Watched


def feeder_file(
    plan: Plan, kafka: Mapping[str, Setting], interfaces: Sequence[str], query_host: str | None
) -> str:
    """Return the TOML file of the feeders.

    `interfaces` are those of this host with an address of a broker; there are none if it is no broker.
    `query_host` is the address of the query's host if feeders can exclude it.
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
    """Return the TOML file of the query. `query_host` is its address if feeders exclude it."""
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
        "# /metrics, /healthz and /readyz. For Prometheus on another host: 0.0.0.0:9108",
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
    """Return what lets the query read from a watched listener, true only where the feeders exclude it."""
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
