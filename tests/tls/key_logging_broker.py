"""A real broker whose JVM logs the secrets of its TLS connections, by the agent extract-tls-secrets."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from streaming.broker.jars import jars
from streaming.probe.client import TOPIC
from tests.pins import pinned_by
from tests.streaming.secure_broker import USER, SecureBroker, make_certificate

FOLDER = Path(__file__).parent
LISTENERS = ("WATCHED", "TLS", "OLD", "MUTUAL", "SASL")
"""The listeners whose requests are logged."""
SUBJECT = f"{USER}/O=Kafka, and #1/emailAddress={USER}@example.org"
"""Of the clients' certificate, as openssl is told it."""
PRINCIPAL = f"1.2.840.113549.1.9.1=#1612{f'{USER}@example.org'.encode().hex()},O=Kafka\\, and \\#1,CN={USER}"
"""What the broker makes of it: characters are escaped, and types without a short name in hexadecimal."""


@cache
def key_log_agent() -> Path:
    """Return the agent's jar, fetched first if the cache lacks it."""
    with pinned_by(FOLDER / "ivy.xml"):
        (jar,) = jars("broker")
    return jar


class KeyLoggingBroker(SecureBroker):
    """A secure broker that writes `key_log`, with one more listener, `old`, which offers TLS 1.2 alone.

    On `old` a client may show its certificate. Whoever does, also on `mutual`, is PRINCIPAL and may do all.
    With `key_limit` its JVM updates its keys of TLS 1.3 after so many bytes, a power of two such as `2^16`.
    The request log has the requests of all LISTENERS.
    """

    def __init__(self, folder: Path, key_limit: str = "") -> None:
        super().__init__(folder)
        self.client_certificate, self.client_key = make_certificate(folder, "client", SUBJECT)
        self.key_log = folder / "broker.keys"
        self._limits = folder / "java.security"
        ciphers = ("AES/GCM/NoPadding", "ChaCha20-Poly1305")
        limits = ", ".join(f"{cipher} KeyUpdate {key_limit}" for cipher in ciphers) if key_limit else ""
        self._limits.write_text(f"jdk.tls.keyLimits={limits}\n" if limits else "")
        (self.old,) = self._free_addresses(1)

    @property
    def tls_ports(self) -> list[int]:
        """The ports of all listeners that speak TLS."""
        addresses = (self.tls, self.old, self.mutual, self.sasl)
        return [int(address.rpartition(":")[2]) for address in addresses]

    @property
    def client_ports(self) -> list[int]:
        """The ports of all listeners for clients: those that speak TLS, and the one in plaintext."""
        return [*self.tls_ports, self.ports.watched]

    def create_topic(self) -> None:
        """Create the topic that Kafka's own clients use."""
        admin = AdminClient({"bootstrap.servers": self.internal})
        for created in admin.create_topics([NewTopic(TOPIC, 2)]).values():
            created.result()

    def _write_settings(self) -> None:
        super()._write_settings()
        properties, logging = self._folder.properties, self._folder.logging
        settings = dict(line.split("=", 1) for line in properties.read_text().splitlines() if "=" in line)
        settings["listeners"] += f",OLD://{self.old}"
        settings["advertised.listeners"] += f",OLD://{self.old}"
        settings["listener.security.protocol.map"] += ",OLD:SSL"
        settings["listener.name.old.ssl.enabled.protocols"] = "TLSv1.2"
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        log = logging.read_text()
        logging.write_text(log.replace('"listener":"WATCHED"', f'"listener":"({"|".join(LISTENERS)})"'))

    def _security(self) -> dict[str, str]:
        settings = super()._security()
        mutual = "listener.name.mutual.ssl."
        trusted = {name: value for name, value in settings.items() if name.startswith(f"{mutual}truststore")}
        return settings | {
            f"{mutual}principal.mapping.rules": "DEFAULT",
            "listener.name.old.ssl.client.auth": "requested",
            **{name.replace("mutual", "old"): value for name, value in trusted.items()},
            # A backslash escapes in a file of properties, too.
            "super.users": f"{settings['super.users']};User:{PRINCIPAL}".replace("\\", "\\\\"),
        }

    def _java(self, *arguments: str | Path) -> list[str | Path]:
        java, *rest = super()._java(*arguments)
        agent = f"-javaagent:{key_log_agent()}={self.key_log}"
        return [java, agent, f"-Djava.security.properties={self._limits}", *rest]
