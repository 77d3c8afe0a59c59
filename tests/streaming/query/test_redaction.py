"""What only Spark's client of Kafka may know, Spark redacts wherever it shows settings."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

import pytest

from streaming.query import session
from streaming.query.session import SECRET
from streaming.settings.configuration import Configuration
from streaming.settings.kafka_client import Setting, jvm_options

VARIABLE: Final = "KIPWATCH_TEST_PASSWORD"
SESAME: Final = "sesame"
REFERENCE: Final = f"env:{VARIABLE}"
TABLES: Final[dict[str, dict[str, Setting]]] = {
    "password": {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "watch", "sasl.password": REFERENCE},
    "token": {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "watch",
        "sasl.oauthbearer.client.secret": REFERENCE,
        "sasl.oauthbearer.token.endpoint.url": "https://login.example/token",
    },
    "key": {"ssl.certificate.pem": "certificate", "ssl.key.pem": REFERENCE, "ssl.key.password": REFERENCE},
    "keystore": {"ssl.keystore.location": "/etc/k.p12", "ssl.keystore.password": REFERENCE},
}


@pytest.mark.parametrize("name", TABLES)
def test_every_option_with_a_secret_has_a_name_that_is_redacted(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, SESAME)
    options = jvm_options("kafka:9092", TABLES[name])
    secret = [option for option, value in options.items() if SESAME in value]
    assert secret
    assert [option for option in secret if not re.search(SECRET, option)] == []


def test_addresses_and_protocols_are_shown() -> None:
    options: dict[str, Setting] = {"security.protocol": "SSL", "client.id": "kipwatch"}
    assert not [option for option in jvm_options("kafka:9092", options) if re.search(SECRET, option)]


def test_the_session_is_given_the_pattern(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's own misses what the Kafka source calls its login."""
    monkeypatch.setattr(os, "environ", dict(os.environ))
    settings = session._settings(Configuration(), (), tmp_path)
    assert settings["spark.redaction.regex"] == settings["spark.sql.redaction.options.regex"] == SECRET
