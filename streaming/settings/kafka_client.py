"""Settings of kipwatch's own Kafka clients: the table [kafka], for librdkafka and for the JVM.

The table uses librdkafka's names. It holds no secrets: it names them, as `env:NAME` or `file:PATH`, and they
are looked up when a client is made.

The JVM's client is Spark's consumer of the frames topic. It gets the settings of security, translated, and a
few settings that both clients know by one name; other settings tune librdkafka alone. A setting of security
that cannot be translated is refused, because a connection must not be less secure than its table says. The
login (SASL) becomes the options of a JAAS login module.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from streaming.settings.confidential import is_reference, looked_up, read_text
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
OF_SECURITY: Final = re.compile(r"(ssl|sasl|security|https|enable\.ssl|enable\.sasl)\.")
"""The prefixes of settings that secure a connection."""
_OWN_KINIT: Final = "sasl.kerberos.kinit.cmd"
"""The command by which librdkafka renews a ticket. Java renews it itself."""
_DEFAULT_AUTHORITIES: Final = "probe"
"""The value of `ssl.ca.location` that stands for the authorities of the system."""
_SECURITY: Final = "org.apache.kafka.common.security"
_PLAIN: Final = f"{_SECURITY}.plain.PlainLoginModule"
_SCRAM: Final = f"{_SECURITY}.scram.ScramLoginModule"
_OAUTHBEARER: Final = f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule"
_OIDC_HANDLER: Final = f"{_SECURITY}.oauthbearer.OAuthBearerLoginCallbackHandler"
_KERBEROS: Final = "com.sun.security.auth.module.Krb5LoginModule"

_JAAS: Final = "sasl.jaas.config"
_OIDC: Final = "sasl.oauthbearer"

Texts = Mapping[str, str]


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
    """Make a client that queries and administers Kafka. Its errors are raised and not logged.

    `settings` is the table [kafka] of the configuration. `on_error` gets errors from the background. Raises
    UserError for settings that are refused.
    """
    own = {"log_level": 0, **({"error_cb": on_error} if on_error else {})}
    return made(AdminClient, {**librdkafka_settings(bootstrap, settings), **own})


def jvm_options(bootstrap: str, settings: Mapping[str, Setting]) -> dict[str, str]:
    """Return the options of Spark's Kafka source with secrets looked up.

    Raises UserError for a secret that is not found, and for settings of security that the JVM lacks.
    """
    for name in sorted(settings.keys() - _TRANSLATED - {_OWN_KINIT}):
        if OF_SECURITY.match(name):
            raise UserError(f"kafka.{name} has no counterpart in Spark's Kafka client; leave it out")
    given = {name: str(_looked_up(name, value)) for name, value in settings.items()}
    found = {_ALIASES.get(name, name): text for name, text in given.items()}
    if "https.ca.location" in found:
        found["https.ca.pem"] = read_text("kafka.https.ca.location", found["https.ca.location"])
    options: dict[str, str] = {name: found[name] for name in _SAME if name in found}
    options |= _encryption(found) | _login(found) | _stores(found)
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
    types = {f"ssl.{name.split('.')[1]}.type": "PEM" for name in given}
    if "ssl.keystore.location" in found:
        types["ssl.keystore.type"] = "PKCS12"
    kept = ("ssl.key.password", "ssl.keystore.location", "ssl.keystore.password")
    return given | types | {name: found[name] for name in kept if name in found}


def _login(found: Texts) -> dict[str, str]:
    """Return the login settings of the JVM's client for librdkafka's, with secrets looked up.

    Raises UserError for a mechanism that only one of the two clients knows.
    """
    mechanism = found.get("sasl.mechanism", "")
    if not mechanism:
        return {}
    if mechanism not in _MECHANISMS:
        raise UserError(f"kafka.sasl.mechanism {mechanism} is not one of {', '.join(_MECHANISMS)}")
    return {"sasl.mechanism": mechanism, **_MECHANISMS[mechanism](found)}


def _with_password(module: str) -> Callable[[Texts], dict[str, str]]:
    def of(found: Texts) -> dict[str, str]:
        user, password = found.get("sasl.username", ""), found.get("sasl.password", "")
        return {_JAAS: _module(module, {"username": user, "password": password})}

    return of


def _oidc(found: Texts) -> dict[str, str]:
    """Log in by OpenID Connect with client credentials, the grant that both clients know."""
    if found.get(f"{_OIDC}.method") != "oidc":
        raise UserError(f'kafka.{_OIDC}.method must be "oidc": there is no other way to get a token')
    grant = found.get(f"{_OIDC}.grant.type", "client_credentials")
    if grant != "client_credentials":
        raise UserError(f"kafka.{_OIDC}.grant.type {grant} has no counterpart in Spark's Kafka client")
    options = {
        "clientId": found.get(f"{_OIDC}.client.id", ""),
        "clientSecret": found.get(f"{_OIDC}.client.secret", ""),
        "scope": found.get(f"{_OIDC}.scope", ""),
        **_extensions(found.get(f"{_OIDC}.extensions", "")),
    }
    authority = found.get("https.ca.pem", "")
    if authority:
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority}
    return {
        _JAAS: _module(_OAUTHBEARER, options),
        "sasl.login.callback.handler.class": _OIDC_HANDLER,
        f"{_OIDC}.token.endpoint.url": found.get(f"{_OIDC}.token.endpoint.url", ""),
    }


def _extensions(text: str) -> dict[str, str]:
    """Translate librdkafka's `name=value,name=value`."""
    pairs = (pair.partition("=") for pair in text.split(",") if pair)
    return {f"extension_{name}": value for name, _, value in pairs}


def _kerberos(found: Texts) -> dict[str, str]:
    principal, keytab = found.get("sasl.kerberos.principal", ""), found.get("sasl.kerberos.keytab", "")
    source = {"useKeyTab": "true", "storeKey": "true"} if keytab else {"useTicketCache": "true"}
    service = found.get("sasl.kerberos.service.name", "kafka")
    options = source | {"keyTab": keytab, "principal": principal}
    return {_JAAS: _module(_KERBEROS, options), "sasl.kerberos.service.name": service}


_MECHANISMS: Final[Mapping[str, Callable[[Texts], dict[str, str]]]] = {
    "PLAIN": _with_password(_PLAIN),
    "SCRAM-SHA-256": _with_password(_SCRAM),
    "SCRAM-SHA-512": _with_password(_SCRAM),
    "OAUTHBEARER": _oidc,
    "GSSAPI": _kerberos,
}


def _module(name: str, options: Texts) -> str:
    given = "".join(f" {option}={_quoted(value)}" for option, value in options.items() if value)
    return f"{name} required{given};"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'
