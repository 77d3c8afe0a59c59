"""Settings of kipwatch's own Kafka clients: one table, for librdkafka and for the JVM.

The table uses librdkafka's names. It holds no secrets: it names them, as `env:NAME` or `file:PATH`, and they
are looked up when a client is made.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from streaming.user_error import UserError

Setting = str | int | bool

SECRETS: Final = frozenset({"sasl.password", "ssl.key.password", "ssl.key.pem"})
_ENVIRONMENT, _FILE = "env:", "file:"
_SAME: Final = ("security.protocol", "client.id", "ssl.endpoint.identification.algorithm")
"""Settings with the same name and meaning in both clients."""
_LOGIN_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_PEM_FILES: Final = {
    "ssl.certificate.location": "ssl.keystore.certificate.chain",
    "ssl.key.location": "ssl.keystore.key",
    "ssl.ca.location": "ssl.truststore.certificates",
}
_KNOWN: Final = frozenset(
    {*_SAME, *SECRETS, *_PEM_FILES, "sasl.mechanism", "sasl.mechanisms", "sasl.username"}
)


def librdkafka_settings(bootstrap: str, settings: Mapping[str, Setting]) -> dict[str, Setting]:
    """Return the settings of a librdkafka client with secrets looked up. Raises UserError."""
    if "bootstrap.servers" in settings:
        raise UserError("kafka.bootstrap.servers: leave it out; `bootstrap` names the brokers")
    found = {name: _looked_up(name, value) for name, value in settings.items()}
    return {"bootstrap.servers": bootstrap, **found}


def jvm_options(bootstrap: str, settings: Mapping[str, Setting]) -> dict[str, str]:
    """Return the options of Spark's Kafka source with secrets looked up.

    Raises UserError for a secret that is not found, and for a setting that the JVM's client lacks.
    """
    unknown = sorted(settings.keys() - _KNOWN)
    if unknown:
        raise UserError(f"kafka.{unknown[0]} has no counterpart in Spark's Kafka client; leave it out")
    found = {name: _looked_up(name, value) for name, value in settings.items()}
    options = {name: str(found[name]) for name in _SAME if name in found} | _login(found) | _pem(found)
    return {f"kafka.{name}": value for name, value in {"bootstrap.servers": bootstrap, **options}.items()}


def _looked_up(name: str, value: Setting) -> Setting:
    if isinstance(value, str) and value.startswith(_ENVIRONMENT):
        variable = value.removeprefix(_ENVIRONMENT)
        if variable not in os.environ:
            raise UserError(f"kafka.{name}: the environment variable {variable} is not set")
        return os.environ[variable]
    if isinstance(value, str) and value.startswith(_FILE):
        return _read(name, value.removeprefix(_FILE)).strip()
    if name in SECRETS:
        raise UserError(f"kafka.{name} is a secret: write env:NAME or file:PATH instead")
    return value


def _read(name: str, path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError as error:
        raise UserError(f"kafka.{name}: cannot read {path}: {error.strerror}") from error


def _login(found: Mapping[str, Setting]) -> dict[str, str]:
    mechanism = str(found.get("sasl.mechanism", found.get("sasl.mechanisms", "")))
    if not mechanism:
        return {}
    if mechanism not in _LOGIN_MODULES:
        raise UserError(f"kafka.sasl.mechanism {mechanism} is not one of {', '.join(_LOGIN_MODULES)}")
    user, password = (_quoted(str(found.get(name, ""))) for name in ("sasl.username", "sasl.password"))
    login = f"{_LOGIN_MODULES[mechanism]} required username={user} password={password};"
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": login}


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _pem(found: Mapping[str, Setting]) -> dict[str, str]:
    """Return certificates and keys by content: the JVM's workers may lack the files."""
    given = {_PEM_FILES[name]: _read(name, str(path)) for name, path in found.items() if name in _PEM_FILES}
    if "ssl.key.pem" in found:
        given["ssl.keystore.key"] = str(found["ssl.key.pem"])
    types = {f"ssl.{store}.type": "PEM" for store in ("keystore", "truststore") if _mentions(given, store)}
    if "ssl.key.password" in found:
        types["ssl.key.password"] = str(found["ssl.key.password"])
    return given | types


def _mentions(options: Mapping[str, str], store: str) -> bool:
    return any(name.startswith(f"ssl.{store}.") for name in options)
