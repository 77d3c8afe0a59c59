"""One table of settings for both Kafka clients; secrets are looked up and written nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from streaming.settings.kafka_client import Setting, jvm_options, librdkafka_settings, made
from streaming.user_error import UserError

VARIABLE = "KIPWATCH_TEST_PASSWORD"
LOGIN: dict[str, Setting] = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "watch",
    "sasl.password": f"env:{VARIABLE}",
}
OIDC: dict[str, Setting] = {
    "security.protocol": "sasl_ssl",
    "sasl.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "kipwatch",
    "sasl.oauthbearer.client.secret": f"env:{VARIABLE}",
    "sasl.oauthbearer.scope": "kafka",
    "sasl.oauthbearer.extensions": "logicalCluster=lkc-1,identityPoolId=pool-1",
    "sasl.oauthbearer.token.endpoint.url": "https://login.example/token",
}


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, 'ses"ame\\')


def options(settings: dict[str, Setting]) -> dict[str, str]:
    found = jvm_options("kafka:9092", settings)
    return {name.removeprefix("kafka."): value for name, value in found.items()}


def test_a_password_from_the_environment_reaches_both_clients() -> None:
    assert librdkafka_settings("kafka:9092", LOGIN)["sasl.password"] == 'ses"ame\\'
    assert options(LOGIN) == {
        "bootstrap.servers": "kafka:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="watch" password="ses\\"ame\\\\";',
    }


def test_a_password_may_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("sesame\n")
    settings = LOGIN | {"sasl.password": f"file:{tmp_path / 'password'}"}
    assert librdkafka_settings("kafka:9092", settings)["sasl.password"] == "sesame"


def test_a_client_of_openid_connect_logs_in_with_its_secret() -> None:
    found = options(OIDC)
    assert (found["security.protocol"], found["sasl.mechanism"]) == ("SASL_SSL", "OAUTHBEARER")
    assert found["sasl.oauthbearer.token.endpoint.url"] == "https://login.example/token"
    assert found["sasl.login.callback.handler.class"].endswith("oauthbearer.OAuthBearerLoginCallbackHandler")
    assert found["sasl.jaas.config"] == (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'clientId="kipwatch" clientSecret="ses\\"ame\\\\" scope="kafka" '
        'extension_logicalCluster="lkc-1" extension_identityPoolId="pool-1";'
    )


def test_the_authority_of_the_token_endpoint_is_passed_by_content(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("line 1\nline 2\n")
    jaas = options(OIDC | {"https.ca.location": str(tmp_path / "ca")})["sasl.jaas.config"]
    assert 'ssl.truststore.type="PEM" ssl.truststore.certificates="line 1\\nline 2\\n";' in jaas


@pytest.mark.parametrize(
    ("keytab", "login"),
    [
        ("/etc/k.keytab", 'useKeyTab="true" storeKey="true" keyTab="/etc/k.keytab" principal="w@EXAMPLE";'),
        ("", 'useTicketCache="true" principal="w@EXAMPLE";'),
    ],
)
def test_kerberos_logs_in_by_a_keytab_or_by_the_ticket_cache(keytab: str, login: str) -> None:
    found = options(
        {
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "sasl.kerberos.principal": "w@EXAMPLE",
            "sasl.kerberos.keytab": keytab,
            "sasl.kerberos.kinit.cmd": "kinit -R",
        }
    )
    assert found["sasl.jaas.config"] == f"com.sun.security.auth.module.Krb5LoginModule required {login}"
    assert found["sasl.kerberos.service.name"] == "kafka"


def test_certificates_reach_the_jvm_by_content(tmp_path: Path) -> None:
    for name in ("ca", "certificate", "key"):
        (tmp_path / name).write_text(f"the {name}")
    found = options(
        {
            "security.protocol": "SSL",
            "ssl.ca.location": str(tmp_path / "ca"),
            "ssl.certificate.location": str(tmp_path / "certificate"),
            "ssl.key.location": str(tmp_path / "key"),
            "ssl.key.password": f"env:{VARIABLE}",
        }
    )
    assert found["ssl.truststore.certificates"] == "the ca"
    assert found["ssl.keystore.certificate.chain"] == "the certificate"
    assert found["ssl.keystore.key"] == "the key"
    assert found["ssl.truststore.type"] == found["ssl.keystore.type"] == "PEM"
    assert found["ssl.key.password"] == 'ses"ame\\'


def test_a_keystore_of_pkcs12_reaches_the_jvm_by_its_path() -> None:
    found = options({"ssl.keystore.location": "/etc/k.p12", "ssl.keystore.password": f"env:{VARIABLE}"})
    assert (found["ssl.keystore.type"], found["ssl.keystore.location"]) == ("PKCS12", "/etc/k.p12")
    assert found["ssl.keystore.password"] == 'ses"ame\\'


@pytest.mark.parametrize(("given", "algorithm"), [("https", "https"), ("none", "")])
def test_host_names_are_verified_alike(given: str, algorithm: str) -> None:
    found = options({"ssl.endpoint.identification.algorithm": given, "ssl.ca.location": "probe"})
    assert found["ssl.endpoint.identification.algorithm"] == algorithm
    assert "ssl.truststore.certificates" not in found


def test_what_tunes_librdkafka_alone_does_not_stop_the_jvm() -> None:
    """One table serves the feeder, which produces, and the query, which consumes."""
    shared: dict[str, Setting] = {"linger.ms": 50, "compression.type": "zstd", "client.rack": "a"}
    assert options(LOGIN | shared) == options(LOGIN) | {"client.rack": "a"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sasl.password": "sesame"}, "is a secret: write env:NAME"),
        ({"sasl.oauthbearer.client.secret": "sesame"}, "is a secret: write env:NAME"),
        ({"ssl.keystore.password": "sesame"}, "is a secret: write env:NAME"),
        ({"sasl.password": "env:KIPWATCH_NO_SUCH"}, "KIPWATCH_NO_SUCH is not set"),
        ({"ssl.ca.location": "/no/such"}, "cannot read /no/such"),
        ({"sasl.mechanism": "CRAM-MD5"}, "CRAM-MD5 is not one of PLAIN"),
        ({"sasl.mechanism": "OAUTHBEARER"}, 'method must be "oidc"'),
        ({**OIDC, "sasl.oauthbearer.grant.type": "jwt"}, "grant.type jwt has no counterpart"),
        ({"ssl.crl.location": "/etc/crl.pem"}, r"kafka.ssl.crl.location has no counterpart"),
        ({"enable.ssl.certificate.verification": False}, "always verifies"),
    ],
)
def test_a_mistake_is_an_error_of_one_line(settings: dict[str, Setting], message: str) -> None:
    with pytest.raises(UserError, match=message) as raised:
        jvm_options("kafka:9092", settings)
    assert "sesame" not in str(raised.value)


@pytest.mark.parametrize("settings", [{"linger": 5}, {"security.protocol": "TLS"}])
def test_what_librdkafka_refuses_is_an_error_of_one_line(settings: dict[str, Setting]) -> None:
    with pytest.raises(UserError, match=r"the table \[kafka\] is invalid: "):
        made(Producer, {**librdkafka_settings("kafka:9092", settings)})
