"""A real broker with ACLs, with listeners for TLS, client certificates and SASL over TLS."""

from __future__ import annotations

import subprocess
from dataclasses import astuple
from pathlib import Path
from typing import Final

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.ports import HOST, free_ports
from streaming.settings.kafka_client import Setting
from tests.streaming.token_server import AUDIENCE, ISSUER, TokenServer

PASSWORD_VARIABLE: Final = "KIPWATCH_TEST_PASSWORD"
USER, PASSWORD = "feeder", 'open "sesame"\\'
USERS: Final = (USER, "query", "auditor")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_LOGIN: Final = "org.apache.kafka.common.security"

Grant = tuple[ResourceType, str, AclOperation]


def make_certificate(
    folder: Path, name: str = "certificate", subject: str = "localhost"
) -> tuple[Path, Path]:
    """Make a self-signed certificate for loopback and its key, as PEM files."""
    made = (folder / f"{name}.pem", folder / f"{name}-key.pem")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    command += ["-subj", f"/CN={subject}", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "1"]
    subprocess.run(
        [*command, "-out", made[0], "-keyout", made[1]], check=True, capture_output=True, timeout=60
    )
    return made


class SecureBroker(EmbeddedBroker):
    """An embedded broker with the listeners `tls`, `mutual` and `sasl`; clients must trust `certificate`.

    ACLs are on: the users of `sasl` and `mutual` may do what `grant` allows. Who does not log in may do all.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.certificate, key = make_certificate(folder)
        self.client_certificate, self.client_key = make_certificate(folder, "client", USER)
        self._keystore = folder / "keystore.pem"
        self._keystore.write_bytes(key.read_bytes() + self.certificate.read_bytes())
        self._keys = folder / "keys.json"
        self.tokens = TokenServer(self.certificate, key, PASSWORD)
        self._keys.write_text(self.tokens.public_keys())
        self._taken = {*astuple(self.ports)}
        self.tls, self.mutual, self.sasl = self._free_addresses(3)

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self.tokens.close()

    def grant(self, user: str, *grants: Grant) -> None:
        """Allow a user some operations on resources."""
        granted = [
            AclBinding(
                kind,
                name,
                ResourcePatternType.LITERAL,
                f"User:{user}",
                "*",
                operation,
                AclPermissionType.ALLOW,
            )
            for kind, name, operation in grants
        ]
        admin = self._admin()
        for done in admin.create_acls(granted, request_timeout=10).values():
            done.result()

    def add_scram_users(self) -> None:
        """Give each user a password for both mechanisms of SCRAM."""
        wanted = [
            UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
            for user in USERS
            for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        ]
        admin = self._admin()
        for one in wanted:
            for done in admin.alter_user_scram_credentials([one]).values():
                done.result()

    def certified(self) -> dict[str, Setting]:
        """Return the table [kafka] of USER, who shows a certificate on `mutual`."""
        return {
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.certificate),
            "ssl.certificate.location": str(self.client_certificate),
            "ssl.key.location": str(self.client_key),
        }

    def token_login(self, user: str) -> dict[str, Setting]:
        """Return the table [kafka] of a user who logs in on `sasl` by OpenID Connect."""
        return {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.certificate),
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": user,
            "sasl.oauthbearer.client.secret": f"env:{PASSWORD_VARIABLE}",
            "sasl.oauthbearer.scope": "kafka",
            "sasl.oauthbearer.token.endpoint.url": self.tokens.url,
            "https.ca.location": str(self.certificate),
        }

    def login(self, user: str, mechanism: str = "PLAIN") -> dict[str, Setting]:
        """Return the table [kafka] of a user who logs in on `sasl`."""
        return {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.certificate),
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": f"env:{PASSWORD_VARIABLE}",
        }

    def _free_addresses(self, count: int) -> list[str]:
        """Return addresses that no listener of the broker has, which listens on none of them yet."""
        free = [port for port in free_ports(count + len(self._taken)) if port not in self._taken][:count]
        self._taken.update(free)
        return [f"{HOST}:{port}" for port in free]

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.internal, "log_level": 0})

    def _write_settings(self) -> None:
        super()._write_settings()
        properties = self._folder.properties
        settings = dict(line.split("=", 1) for line in properties.read_text().splitlines() if "=" in line)
        own = f",TLS://{self.tls},MUTUAL://{self.mutual},SASL://{self.sasl}"
        settings["listeners"] += own
        settings["advertised.listeners"] += own
        settings["listener.security.protocol.map"] += ",TLS:SSL,MUTUAL:SSL,SASL:SASL_SSL"
        settings |= self._security()
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    def _java(self, *arguments: str | Path) -> list[str | Path]:
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self._keys.as_uri()}"
        java, *rest = super()._java(*arguments)
        return [java, allowed, *rest]

    def _security(self) -> dict[str, str]:
        quoted = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
        passwords = " ".join(f'user_{user}="{quoted}"' for user in USERS)
        plain = f"{_LOGIN}.plain.PlainLoginModule required {passwords};"
        oauth = f"{_LOGIN}.oauthbearer"
        scram = f"{_LOGIN}.scram.ScramLoginModule required;"
        return {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._keystore),
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.mutual.ssl.truststore.type": "PEM",
            "listener.name.mutual.ssl.truststore.location": str(self.client_certificate),
            "listener.name.mutual.ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/",
            "listener.name.sasl.sasl.enabled.mechanisms": ",".join(MECHANISMS),
            # A backslash escapes in a file of properties, too.
            "listener.name.sasl.plain.sasl.jaas.config": plain.replace("\\", "\\\\"),
            "listener.name.sasl.scram-sha-256.sasl.jaas.config": scram,
            "listener.name.sasl.scram-sha-512.sasl.jaas.config": scram,
            "listener.name.sasl.oauthbearer.sasl.jaas.config": f"{oauth}.OAuthBearerLoginModule required;",
            "listener.name.sasl.oauthbearer.sasl.server.callback.handler.class": (
                f"{oauth}.OAuthBearerValidatorCallbackHandler"
            ),
            "sasl.oauthbearer.jwks.endpoint.url": self._keys.as_uri(),
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.expected.issuer": ISSUER,
        }
