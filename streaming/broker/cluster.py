"""Asks a Kafka cluster for its ID, its brokers and their listeners, and says why it cannot be asked.

A request of librdkafka that fails only says "timed out". Refused logins and certificates are reported in the
background, to `ConnectionErrors`. A closed listener, or one that demands TLS, is not reported, so both are
tried here.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, DescribeClusterResult

from streaming.settings.address import address_text, bootstrap_addresses
from streaming.settings.kafka_client import Setting, admin_client
from streaming.user_error import UserError

_PATIENCE: Final = 10.0
"""Seconds to wait for each answer of Kafka."""
_CONNECT_SECONDS: Final = 3.0
FORBIDDEN: Final = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})
"""Errors of a user who lacks a right."""
_ENDPOINT: Final = re.compile(r"(?P<name>[^:,]+)://(?P<host>\[[^\]]*\]|[^:,]*):(?P<port>\d+)")


class BrokerListener(NamedTuple):
    """A listener as clients reach it. `protocol` is Kafka's security protocol."""

    name: str
    host: str
    port: int
    protocol: str

    @property
    def is_readable(self) -> bool:
        """Whether a capture can read its traffic without keys: it is not TLS."""
        return self.protocol in {"PLAINTEXT", "SASL_PLAINTEXT"}


@dataclass(frozen=True, slots=True)
class ClusterBroker:
    """A broker of a cluster. `listeners` is empty if the cluster does not tell them."""

    node_id: int
    host: str
    port: int
    listeners: tuple[BrokerListener, ...] = ()


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster, with its brokers in the order of their node IDs."""

    cluster_id: str
    brokers: tuple[ClusterBroker, ...]


class ConnectionErrors:
    """Collects the errors of a client's connections, as its `error_cb`, and explains why a request failed.

    `settings` is the table [kafka] of the client.
    """

    def __init__(self, bootstrap: str, settings: Mapping[str, Setting]) -> None:
        self._bootstrap = bootstrap
        self._is_encrypted = str(settings.get("security.protocol", "")).upper().endswith("SSL")
        self._latest = ""

    def __call__(self, error: KafkaError) -> None:
        """Keep an error, unless it only says that all brokers are down."""
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._latest = error.str()

    def explain(self, client: AdminClient | Consumer, failure: KafkaException) -> str:
        """Return in one line why a request of the client failed, and what to correct."""
        client.poll(0)
        if closed := all_closed(self._bootstrap):
            return closed
        if not self._is_encrypted and any(map(_speaks_tls, bootstrap_addresses(self._bootstrap))):
            remedy = 'write security.protocol = "SSL" or "SASL_SSL" into the table [kafka]'
            return f"it accepts connections, but: it speaks TLS, and this client does not; {remedy}"
        cause = self._latest or failure.args[0].str()
        remedy = "correct `bootstrap`, or the login and TLS in the table [kafka]"
        return f"it accepts connections, but: {cause}; {remedy}"


def closed_addresses(bootstrap: str) -> list[str]:
    """Say of each address to which no TCP connection is possible why it is not."""
    return [reason for address in bootstrap_addresses(bootstrap) if (reason := _connect(*address))]


def all_closed(bootstrap: str) -> str:
    """Return why no address accepts connections, "" if one does."""
    closed = closed_addresses(bootstrap)
    if len(closed) < len(bootstrap_addresses(bootstrap)):
        return ""
    return f"{'; '.join(closed)}: correct `bootstrap`, or start the broker"


def _connect(host: str, port: int) -> str:
    """Return why no TCP connection is possible, "" if one is."""
    try:
        socket.create_connection((host, port), _CONNECT_SECONDS).close()
    except OSError as error:
        return f"cannot connect to {address_text(host, port)} ({error.strerror or error})"
    return ""


def _speaks_tls(address: tuple[str, int]) -> bool:
    """Whether a handshake of TLS succeeds, whatever the certificate, or is answered by an alert."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection(address, _CONNECT_SECONDS) as connection,
            context.wrap_socket(connection, server_hostname=address[0]),
        ):
            return True
    except OSError as error:
        return "ALERT" in (getattr(error, "reason", "") or "")


def describe_cluster(bootstrap: str, admin: AdminClient, errors: ConnectionErrors) -> DescribeClusterResult:
    """Ask for the ID and the brokers of a cluster; the client's `error_cb` is `errors`. Raises UserError."""
    if closed := all_closed(bootstrap):
        raise UserError(closed)
    try:
        found: DescribeClusterResult = admin.describe_cluster(request_timeout=_PATIENCE).result()
    except KafkaException as error:
        raise UserError(errors.explain(admin, error)) from error
    return found


def ask_cluster(bootstrap: str, settings: Mapping[str, Setting]) -> Cluster:
    """Ask a cluster for its brokers. `settings` is the table [kafka]. Raises UserError."""
    errors = ConnectionErrors(bootstrap, settings)
    admin = admin_client(bootstrap, settings, errors)
    try:
        found = describe_cluster(bootstrap, admin, errors)
    except UserError as error:
        raise UserError(f"cannot ask Kafka at {bootstrap}: {error}") from error
    brokers = (
        ClusterBroker(node.id, node.host, node.port, _listeners(admin, node.id))
        for node in sorted(found.nodes, key=lambda node: node.id)
    )
    return Cluster(found.cluster_id or "", tuple(brokers))


def _listeners(admin: AdminClient, node_id: int) -> tuple[BrokerListener, ...]:
    """Return the listeners of a broker. Raises UserError if the user may not see them."""
    resource = ConfigResource(ConfigResource.Type.BROKER, str(node_id))
    (described,) = admin.describe_configs([resource], request_timeout=_PATIENCE).values()
    try:
        entries = {name: entry.value or "" for name, entry in described.result().items()}
    except KafkaException as error:
        raise UserError(_unseen(node_id, error.args[0])) from error
    endpoints = entries.get("advertised.listeners") or entries.get("listeners", "")
    return parse_listeners(endpoints, entries.get("listener.security.protocol.map", ""))


def _unseen(node_id: int, cause: KafkaError) -> str:
    if cause.code() in FORBIDDEN:
        remedy = "grant DescribeConfigs on the cluster (docs/run.md lists the ACLs)"
        return f"this user may not see the listeners of broker {node_id}, which are to be watched: {remedy}"
    return f"broker {node_id} does not tell its listeners, which are to be watched: {cause.str()}"


def parse_listeners(endpoints: str, protocols: str) -> tuple[BrokerListener, ...]:
    """Parse `advertised.listeners` and `listener.security.protocol.map`.

    As in Kafka, the protocol of a listener that the map does not name is its own name.
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
