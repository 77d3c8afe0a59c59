"""Kafka's own clients 4.4.0, which produce, consume and tidy up (`java/NewClients.java`)."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from streaming.broker.jars import jars, java
from streaming.broker.ports import HOST
from streaming.probe.client import TOPIC
from tests.scenarios.stage import PASSWORD, USER

PROGRAM = Path(__file__).parent / "java" / "NewClients.java"
PATIENCE = 90.0
_LOGINS = {"PLAIN": "plain.PlainLoginModule", "SCRAM-SHA-256": "scram.ScramLoginModule"}


def run_new_clients(port: int, mechanism: str = "", pause: int = 0, settings: Sequence[str] = ()) -> None:
    """Let them speak to a port, with SASL if a mechanism is given, messages `pause` milliseconds apart.

    `settings` are added to those of each client.
    """
    classes = ":".join(map(str, jars("broker")))
    arguments = [f"{HOST}:{port}", TOPIC, str(pause), *(login(mechanism) if mechanism else ()), *settings]
    subprocess.run([java(), "-cp", classes, PROGRAM, *arguments], check=True, timeout=PATIENCE)


def trusting(certificate: Path) -> list[str]:
    """Return the settings of clients that speak TLS, and trust a certificate."""
    return [
        "security.protocol=SSL",
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={certificate}",
    ]


def login(mechanism: str) -> list[str]:
    """Return the settings of clients that log in."""
    module = f"org.apache.kafka.common.security.{_LOGINS[mechanism]}"
    jaas = f'{module} required username="{USER}" password="{PASSWORD}";'
    return [
        "security.protocol=SASL_PLAINTEXT",
        f"sasl.mechanism={mechanism}",
        f"sasl.jaas.config={jaas}",
    ]
