"""Settings of kipwatch's own Kafka clients: one table, for librdkafka and for the JVM.

The table uses librdkafka's names. It holds no secrets: it names them, as `env:NAME` or `file:PATH`, and they
are looked up when a client is made.

The JVM's client, Spark's consumer of the frames topic, gets what is said of security, translated, and a few
settings that both clients know by one name. What is said of security and cannot be translated is refused: a
connection must not be less secure than its table says. Other settings tune librdkafka alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from streaming.settings.jvm_login import login
from streaming.settings.secret import is_reference, looked_up, read_text
from streaming.user_error import UserError

Setting = str | int | bool
Client = TypeVar("Client")

_SECRET: Final = re.compile(r"password|passphrase|secret|key\.pem$")
_ALIASES: Final = {
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
}
_SAME: Final = (
    "client.id",
    "client.rack",
    "client.dns.lookup",
    "sasl.kerberos.min.time.before.relogin",
    "sasl.oauthbearer.sub.claim.name",
)
"""Settings with the same name and meaning in both clients."""
_PEM_FILES: Final = {
    "ssl.certificate.location": "ssl.keystore.certificate.chain",
    "ssl.key.location": "ssl.keystore.key",
    "ssl.ca.location": "ssl.truststore.certificates",
}
_PEMS: Final = {
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
    "ssl.ca.pem": "ssl.truststore.certificates",
}
_TRANSLATED: Final = frozenset(
    {
        *_SAME,
        *_ALIASES,
        *_PEM_FILES,
        *_PEMS,
        "security.protocol",
        "enable.ssl.certificate.verification",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.password",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "https.ca.location",
        "https.ca.pem",
        "sasl.mechanism",
        "sasl.username",
        "sasl.password",
        "sasl.kerberos.keytab",
        "sasl.kerberos.principal",
        "sasl.kerberos.service.name",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.extensions",
        "sasl.oauthbearer.grant.type",
        "sasl.oauthbearer.method",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.token.endpoint.url",
    }
)
_OF_SECURITY: Final = re.compile(r"(ssl|sasl|security|https|enable\.ssl|enable\.sasl)\.")
_OWN_KINIT: Final = "sasl.kerberos.kinit.cmd"
"""How librdkafka renews a ticket; Java does so itself."""
_DEFAULT_AUTHORITIES: Final = "probe"
"""The value of `ssl.ca.location` that stands for the authorities of the system."""


def librdkafka_settings(bootstrap: str, settings: Mapping[str, Setting]) -> dict[str, Setting]:
    """Return the settings of a librdkafka client with secrets looked up. Raises UserError."""
    if "bootstrap.servers" in settings:
        raise UserError("kafka.bootstrap.servers: leave it out; `bootstrap` names the brokers")
    found = {name: _looked_up(name, value) for name, value in settings.items()}
    return {"bootstrap.servers": bootstrap, **found}


def made(kind: Callable[[dict[str, Any]], Client], settings: dict[str, Any]) -> Client:
    """Make a client of librdkafka. Raises UserError for settings that it refuses."""
    try:
        return kind(settings)
    except KafkaException as error:
        raise UserError(f"the table [kafka] is invalid: {error.args[0].str()}") from error


def admin_client(
    bootstrap: str, settings: Mapping[str, Setting], on_error: Callable[[KafkaError], None] | None = None
) -> AdminClient:
    """Make a client that asks and administers Kafka; its errors are raised and not logged.

    `settings` is the table [kafka] of the configuration. `on_error` is called with what goes wrong in the
    background. Raises UserError for settings that are refused.
    """
    own = {"log_level": 0, **({"error_cb": on_error} if on_error else {})}
    return made(AdminClient, {**librdkafka_settings(bootstrap, settings), **own})


def jvm_options(bootstrap: str, settings: Mapping[str, Setting]) -> dict[str, str]:
    """Return the options of Spark's Kafka source with secrets looked up.

    Raises UserError for a secret that is not found, and for what the JVM's client cannot do for security.
    """
    for name in sorted(settings.keys() - _TRANSLATED - {_OWN_KINIT}):
        if _OF_SECURITY.match(name):
            raise UserError(f"kafka.{name} has no counterpart in Spark's Kafka client; leave it out")
    given = {name: str(_looked_up(name, value)) for name, value in settings.items()}
    found = {_ALIASES.get(name, name): text for name, text in given.items()}
    if "https.ca.location" in found:
        found["https.ca.pem"] = read_text("kafka.https.ca.location", found["https.ca.location"])
    options: dict[str, str] = {name: found[name] for name in _SAME if name in found}
    options |= _encryption(found) | login(found) | _stores(found)
    return {f"kafka.{name}": value for name, value in {"bootstrap.servers": bootstrap, **options}.items()}


def _looked_up(name: str, value: Setting) -> Setting:
    if isinstance(value, str) and is_reference(value):
        return looked_up(f"kafka.{name}", value)
    if _SECRET.search(name):
        raise UserError(f"kafka.{name} is a secret: write env:NAME or file:PATH instead")
    return value


def _encryption(found: Mapping[str, str]) -> dict[str, str]:
    options = {}
    if "security.protocol" in found:
        options["security.protocol"] = found["security.protocol"].upper()
    if found.get("enable.ssl.certificate.verification", "True").lower() == "false":
        raise UserError(
            "kafka.enable.ssl.certificate.verification: Spark's Kafka client always verifies; "
            "name the broker's authority in ssl.ca.location"
        )
    algorithm = found.get("ssl.endpoint.identification.algorithm")
    if algorithm is not None:
        options["ssl.endpoint.identification.algorithm"] = "" if algorithm == "none" else algorithm
    return options


def _stores(found: Mapping[str, str]) -> dict[str, str]:
    """Return certificates and keys by content: the JVM's workers may lack the files. PKCS#12 is a file."""
    given = {
        _PEM_FILES[name]: read_text(f"kafka.{name}", path)
        for name, path in found.items()
        if name in _PEM_FILES and path != _DEFAULT_AUTHORITIES
    }
    given |= {_PEMS[name]: text for name, text in found.items() if name in _PEMS}
    types = {f"ssl.{store}.type": "PEM" for store in ("keystore", "truststore") if _mentions(given, store)}
    if "ssl.keystore.location" in found:
        types["ssl.keystore.type"] = "PKCS12"
    kept = ("ssl.key.password", "ssl.keystore.location", "ssl.keystore.password")
    return given | types | {name: found[name] for name in kept if name in found}


def _mentions(options: Mapping[str, str], store: str) -> bool:
    return any(name.startswith(f"ssl.{store}.") for name in options)
