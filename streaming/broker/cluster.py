"""Asks a Kafka cluster for its ID, its brokers and their listeners."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource

from streaming.settings.kafka_client import Setting, admin_client
from streaming.user_error import UserError

_PATIENCE: Final = 15.0
"""Seconds to wait for Kafka."""
_ENDPOINT: Final = re.compile(r"(?P<name>[^:,]+)://(?P<host>\[[^\]]*\]|[^:,]*):(?P<port>\d+)")


class BrokerListener(NamedTuple):
    """One listener as clients reach it; `protocol` is Kafka's security protocol."""

    name: str
    host: str
    port: int
    protocol: str

    @property
    def is_readable(self) -> bool:
        """Whether a capture can read what passes: it is not TLS."""
        return self.protocol in {"PLAINTEXT", "SASL_PLAINTEXT"}


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker. `listeners` is empty if the cluster does not tell them to this user."""

    node_id: int
    host: str
    port: int
    listeners: tuple[BrokerListener, ...] = ()


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster, with its brokers in the order of their node IDs."""

    cluster_id: str
    brokers: tuple[Broker, ...]


def ask_cluster(bootstrap: str, settings: Mapping[str, Setting]) -> Cluster:
    """Ask a cluster. `settings` is the table [kafka]. Raises UserError if Kafka cannot be reached."""
    admin = admin_client(bootstrap, settings)
    try:
        found = admin.describe_cluster(request_timeout=_PATIENCE).result()
    except KafkaException as error:
        raise UserError(f"cannot ask Kafka at {bootstrap}: {error.args[0].str()}; see --bootstrap") from error
    brokers = (
        Broker(node.id, node.host, node.port, _listeners(admin, node.id))
        for node in sorted(found.nodes, key=lambda node: node.id)
    )
    return Cluster(found.cluster_id or "", tuple(brokers))


def _listeners(admin: AdminClient, node_id: int) -> tuple[BrokerListener, ...]:
    """Return the listeners of a broker; none if the user may not describe its configuration."""
    resource = ConfigResource(ConfigResource.Type.BROKER, str(node_id))
    (described,) = admin.describe_configs([resource], request_timeout=_PATIENCE).values()
    try:
        entries = {name: entry.value or "" for name, entry in described.result().items()}
    except KafkaException:
        return ()
    endpoints = entries.get("advertised.listeners") or entries.get("listeners", "")
    return parse_listeners(endpoints, entries.get("listener.security.protocol.map", ""))


def parse_listeners(endpoints: str, protocols: str) -> tuple[BrokerListener, ...]:
    """Parse `advertised.listeners` and `listener.security.protocol.map`.

    A listener that the map does not name has the protocol of its own name, as in Kafka.
    """
    by_name = dict(pair.strip().split(":", 1) for pair in protocols.split(",") if ":" in pair)
    return tuple(
        BrokerListener(
            found["name"].strip(),
            found["host"].strip("[]"),
            int(found["port"]),
            by_name.get(found["name"].strip(), found["name"].strip()),
        )
        for found in _ENDPOINT.finditer(endpoints)
    )
