"""How the JVM's Kafka client logs in (SASL): librdkafka's settings as options of a JAAS login module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from streaming.user_error import UserError

_SECURITY: Final = "org.apache.kafka.common.security"
_PLAIN: Final = f"{_SECURITY}.plain.PlainLoginModule"
_SCRAM: Final = f"{_SECURITY}.scram.ScramLoginModule"
_OAUTHBEARER: Final = f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule"
_OIDC_HANDLER: Final = f"{_SECURITY}.oauthbearer.OAuthBearerLoginCallbackHandler"
_KERBEROS: Final = "com.sun.security.auth.module.Krb5LoginModule"

_JAAS: Final = "sasl.jaas.config"
_OIDC: Final = "sasl.oauthbearer"

Texts = Mapping[str, str]


def login(found: Texts) -> dict[str, str]:
    """Return the JVM client's settings of a login; `found` are librdkafka's, with secrets looked up.

    Raises UserError for a mechanism that the two clients do not share.
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
    """Log in by OpenID Connect with client credentials, which is what both clients know."""
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
    """Return the options for librdkafka's `name=value,name=value`."""
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
