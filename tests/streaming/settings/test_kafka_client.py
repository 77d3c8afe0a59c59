"""One table of settings for both Kafka clients; secrets are looked up and written nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from streaming.settings.kafka_client import jvm_options, librdkafka_settings
from streaming.user_error import UserError

LOGIN = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "watch",
    "sasl.password": "env:KIPWATCH_TEST_PASSWORD",
}


def test_a_password_from_the_environment_reaches_both_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIPWATCH_TEST_PASSWORD", 'ses"ame\\')
    assert librdkafka_settings("kafka:9092", LOGIN)["sasl.password"] == 'ses"ame\\'
    options = jvm_options("kafka:9092", LOGIN)
    assert options["kafka.bootstrap.servers"] == "kafka:9092"
    assert options["kafka.security.protocol"] == "SASL_SSL"
    assert options["kafka.sasl.mechanism"] == "SCRAM-SHA-512"
    assert options["kafka.sasl.jaas.config"] == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="watch" password="ses\\"ame\\\\";'
    )


def test_a_password_may_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("sesame\n")
    settings = LOGIN | {"sasl.password": f"file:{tmp_path / 'password'}"}
    assert librdkafka_settings("kafka:9092", settings)["sasl.password"] == "sesame"


def test_certificates_reach_the_jvm_by_content(tmp_path: Path) -> None:
    for name in ("ca", "certificate", "key"):
        (tmp_path / name).write_text(f"the {name}")
    options = jvm_options(
        "kafka:9092",
        {
            "security.protocol": "SSL",
            "ssl.ca.location": str(tmp_path / "ca"),
            "ssl.certificate.location": str(tmp_path / "certificate"),
            "ssl.key.location": str(tmp_path / "key"),
        },
    )
    assert options["kafka.ssl.truststore.certificates"] == "the ca"
    assert options["kafka.ssl.keystore.certificate.chain"] == "the certificate"
    assert options["kafka.ssl.keystore.key"] == "the key"
    assert options["kafka.ssl.truststore.type"] == options["kafka.ssl.keystore.type"] == "PEM"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sasl.password": "sesame"}, "is a secret: write env:NAME"),
        ({"sasl.password": "env:KIPWATCH_NO_SUCH"}, "KIPWATCH_NO_SUCH is not set"),
        ({"ssl.ca.location": "/no/such"}, "cannot read /no/such"),
        ({"sasl.mechanism": "GSSAPI"}, "GSSAPI is not one of PLAIN"),
        ({"linger.ms": 5}, "kafka.linger.ms has no counterpart"),
    ],
)
def test_a_mistake_is_an_error_of_one_line(settings: dict[str, str | int], message: str) -> None:
    with pytest.raises(UserError, match=message) as raised:
        jvm_options("kafka:9092", settings)
    assert "sesame" not in str(raised.value)
