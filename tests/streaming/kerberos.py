"""A Kerberos realm for tests: MIT's key distribution centre on loopback, and a broker that belongs to it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.ports import free_ports
from streaming.settings.kafka_client import Setting

REALM: Final = "KIPWATCH.TEST"
PROGRAMS: Final = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
PACKAGES: Final = "krb5-kdc krb5-admin-server krb5-user"
_FOLDERS: Final = "/usr/sbin:/usr/bin:/sbin:/bin"
_PATIENCE: Final = 20.0


def is_installed() -> bool:
    """Whether the programs of a realm are installed."""
    return all(map(_program, PROGRAMS))


class Realm:
    """A realm with principals that log in by keytabs. A context manager."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (port,) = free_ports(1)
        self._address = ("127.0.0.1", port)
        self.configuration = folder / "krb5.conf"
        self.configuration.write_text(
            f"[libdefaults]\ndefault_realm = {REALM}\ndns_lookup_kdc = false\n"
            f"dns_canonicalize_hostname = false\nrdns = false\nudp_preference_limit = 1\n"
            f"default_ccache_name = FILE:{folder}/tickets\n"
            f"[realms]\n{REALM} = {{\nkdc = 127.0.0.1:{port}\n}}\n"
        )
        profile = folder / "kdc.conf"
        profile.write_text(
            f"[kdcdefaults]\nkdc_listen = 127.0.0.1:{port}\nkdc_tcp_listen = 127.0.0.1:{port}\n"
            f"[realms]\n{REALM} = {{\ndatabase_name = {folder}/principals\nkey_stash_file = {folder}/stash\n"
            f"acl_file = {folder}/acl\n}}\n"
        )
        self.environment = {
            **os.environ,
            "KRB5_CONFIG": str(self.configuration),
            "KRB5_KDC_PROFILE": str(profile),
        }
        self.java_option = f"-Djava.security.krb5.conf={self.configuration}"

    def __enter__(self) -> Self:
        self._run("kdb5_util", "create", "-r", REALM, "-s", "-P", "a master password")
        self._process = subprocess.Popen(
            [_program("krb5kdc") or "", "-n", "-r", REALM],
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            try:
                socket.create_connection(self._address, 1).close()
            except OSError:
                time.sleep(0.1)
            else:
                return self
        raise AssertionError("krb5kdc does not respond")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(_PATIENCE)

    def keytab(self, principal: str) -> Path:
        """Add a principal to the realm, and return a file by which it logs in."""
        keytab = self._folder / f"{principal.replace('/', '-')}.keytab"
        self._run("kadmin.local", "-r", REALM, "-q", f"addprinc -randkey {principal}@{REALM}")
        self._run("kadmin.local", "-r", REALM, "-q", f"ktadd -k {keytab} {principal}@{REALM}")
        return keytab

    def login(self, user: str) -> dict[str, Setting]:
        """Return the table [kafka] of a user of the realm."""
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "sasl.kerberos.principal": f"{user}@{REALM}",
            "sasl.kerberos.keytab": str(self.keytab(user)),
        }

    def _run(self, program: str, *arguments: str) -> None:
        command = [_program(program) or program, *arguments]
        subprocess.run(command, env=self.environment, check=True, capture_output=True, timeout=_PATIENCE)


class KerberosBroker(EmbeddedBroker):
    """An embedded broker with the listener `kerberos`, whose users are those of a realm."""

    def __init__(self, realm: Realm) -> None:
        super().__init__()
        (port,) = free_ports(1)
        self.kerberos = f"localhost:{port}"
        self._realm, self._keytab = realm, realm.keytab("kafka/localhost")

    def _write_settings(self) -> None:
        super()._write_settings()
        properties = self._folder.properties
        settings = dict(line.split("=", 1) for line in properties.read_text().splitlines() if "=" in line)
        for name in ("listeners", "advertised.listeners"):
            settings[name] += f",KERBEROS://{self.kerberos}"
        settings["listener.security.protocol.map"] += ",KERBEROS:SASL_PLAINTEXT"
        settings["listener.name.kerberos.sasl.enabled.mechanisms"] = "GSSAPI"
        settings["sasl.kerberos.service.name"] = "kafka"
        settings["listener.name.kerberos.gssapi.sasl.jaas.config"] = (
            "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
            f'keyTab="{self._keytab}" principal="kafka/localhost@{REALM}";'
        )
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    def _java(self, *arguments: str | Path) -> list[str | Path]:
        java, *rest = super()._java(*arguments)
        return [java, self._realm.java_option, *rest]


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:{_FOLDERS}")
