"""A real broker with two more listeners, TLS and SASL over TLS, and its certificate."""

from __future__ import annotations

import subprocess
from pathlib import Path

from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.ports import HOST, free_ports

USER, PASSWORD = "feeder", "open sesame"


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Make a self-signed certificate for loopback and its key, as PEM files."""
    made = (folder / "certificate.pem", folder / "key.pem")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "1"]
    subprocess.run(
        [*command, "-out", made[0], "-keyout", made[1]], check=True, capture_output=True, timeout=60
    )
    return made


class SecureBroker(EmbeddedBroker):
    """An embedded broker with the listeners `tls` and `sasl`; clients must trust `certificate`."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.certificate, key = make_certificate(folder)
        self._keystore = folder / "keystore.pem"
        self._keystore.write_bytes(key.read_bytes() + self.certificate.read_bytes())
        self.tls, self.sasl = (f"{HOST}:{port}" for port in free_ports(2))

    def _write_settings(self) -> None:
        super()._write_settings()
        properties = self._folder.properties
        settings = dict(line.split("=", 1) for line in properties.read_text().splitlines() if "=" in line)
        own = f",TLS://{self.tls},SASL://{self.sasl}"
        settings["listeners"] += own
        settings["advertised.listeners"] += own
        settings["listener.security.protocol.map"] += ",TLS:SSL,SASL:SASL_SSL"
        settings["ssl.keystore.type"] = "PEM"
        settings["ssl.keystore.location"] = str(self._keystore)
        settings["listener.name.sasl.sasl.enabled.mechanisms"] = "PLAIN"
        settings["listener.name.sasl.plain.sasl.jaas.config"] = (
            f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
        )
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
