"""How the probe secures a connection: TLS and a login, from the table [kafka] of the configuration.

The table has librdkafka's names, and its secrets are looked up as for kipwatch's own clients. The probe logs
in by PLAIN or SCRAM (RFC 5802), in Kafka's own requests.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import ssl
from collections.abc import Generator, Mapping
from typing import Final, NamedTuple

from streaming.probe.client import InstanceClient
from streaming.settings.kafka_client import OF_SECURITY, Setting, librdkafka_settings
from streaming.user_error import UserError

MECHANISMS: Final = {"PLAIN": "", "SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""The mechanisms of SASL, each with its hash."""
MOST_ROUNDS = 1_000_000
"""Iterations of a SCRAM hash that a broker may demand."""
_PROTOCOLS: Final = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
_TAKEN: Final = frozenset(
    {
        "security.protocol",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.username",
        "sasl.password",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.endpoint.identification.algorithm",
        "enable.ssl.certificate.verification",
    }
)


class Login(NamedTuple):
    """A user, the password, and the mechanism of SASL."""

    mechanism: str
    user: str
    password: str


class Security(NamedTuple):
    tls: ssl.SSLContext | None = None
    login: Login | None = None


OPEN = Security()


def security_of(address: str, settings: Mapping[str, Setting]) -> Security:
    """Return the security that a table [kafka] asks for. Raises UserError for what the probe lacks."""
    found = {name: str(value) for name, value in librdkafka_settings(address, settings).items()}
    for name in sorted(found.keys() - _TAKEN):
        if OF_SECURITY.match(name):
            raise UserError(f"kafka.{name}: a probe takes only {', '.join(sorted(_TAKEN))}")
    protocol = found.get("security.protocol", "plaintext").lower()
    if protocol not in _PROTOCOLS:
        raise UserError(f"kafka.security.protocol {protocol} is not one of {', '.join(_PROTOCOLS)}")
    tls = _tls(found) if protocol.endswith("ssl") else None
    return Security(tls, _login(found) if protocol.startswith("sasl") else None)


def _tls(found: Mapping[str, str]) -> ssl.SSLContext:
    authorities = found.get("ssl.ca.location", "probe")
    try:
        context = ssl.create_default_context(cafile=None if authorities == "probe" else authorities)
        if certificate := found.get("ssl.certificate.location"):
            context.load_cert_chain(
                certificate, found.get("ssl.key.location"), found.get("ssl.key.password", "")
            )
    except OSError as error:
        raise UserError(f"kafka: cannot use the TLS files: {error.strerror or error}") from error
    is_verified = found.get("enable.ssl.certificate.verification", "true").lower() != "false"
    is_named = found.get("ssl.endpoint.identification.algorithm", "https") != "none"
    context.check_hostname = is_verified and is_named
    context.verify_mode = ssl.CERT_REQUIRED if is_verified else ssl.CERT_NONE
    return context


def _login(found: Mapping[str, str]) -> Login:
    mechanism = found.get("sasl.mechanism") or found.get("sasl.mechanisms") or ""
    if mechanism not in MECHANISMS:
        raise UserError(f"kafka.sasl.mechanism {mechanism} is not one of {', '.join(MECHANISMS)}")
    return Login(mechanism, found.get("sasl.username", ""), found.get("sasl.password", ""))


def authenticate(client: InstanceClient, login: Login, version: int = 2) -> bool:
    """Shake hands and authenticate, for the first time or again. Returns whether the broker agreed.

    Raises ConnectionClosedError.
    """
    if client.request("SaslHandshake", {"mechanism": login.mechanism}, version=1).get("errorCode", -1):
        return False
    tokens = (_scram if MECHANISMS[login.mechanism] else _plain)(login)
    challenge: bytes | None = None
    while True:
        try:
            token = tokens.send(challenge)
        except StopIteration:
            return True
        except (KeyError, ValueError):
            # The broker's challenge is not one of SCRAM.
            return False
        given = {"authBytes": base64.b64encode(token).decode()}
        answer = client.request("SaslAuthenticate", given, version=version)
        if answer.get("errorCode", 0) or "authBytes" not in answer:
            return False
        challenge = base64.b64decode(answer["authBytes"] or "")


Tokens = Generator[bytes, bytes | None, None]
"""Yields what the client sends, and is sent the broker's answers."""


def _plain(login: Login) -> Tokens:
    yield f"\0{login.user}\0{login.password}".encode()


def _scram(login: Login) -> Tokens:
    """Show the proof of a password. The broker's own proof is not checked: it is under test, not trusted."""
    name = MECHANISMS[login.mechanism]
    user = login.user.replace("=", "=3D").replace(",", "=2C")
    bare = f"n={user},r={secrets.token_urlsafe(18)}"
    challenge = yield f"n,,{bare}".encode()
    told = (challenge or b"").decode()
    fields = dict(part.split("=", 1) for part in told.split(","))
    rounds = int(fields["i"])
    if not 0 < rounds <= MOST_ROUNDS:
        raise ValueError("no broker needs as many rounds")
    final = f"c=biws,r={fields['r']}"
    salted = hashlib.pbkdf2_hmac(name, login.password.encode(), base64.b64decode(fields["s"]), rounds)
    key = hmac.digest(salted, b"Client Key", name)
    signature = hmac.digest(hashlib.new(name, key).digest(), f"{bare},{told},{final}".encode(), name)
    proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    yield f"{final},p={base64.b64encode(proof).decode()}".encode()
