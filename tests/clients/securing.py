"""Where clients connect to a broker of a release: in plaintext, with a login, or by TLS."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from streaming.broker.ports import HOST, free_ports
from streaming.demo.loopback import DemoTls, TlsEndpoint
from tests.clients.releases import ReleasedBroker

PLAIN, SASL, TLS = "", "SASL/PLAIN", "TLS"
USER, PASSWORD = "tester", "secret"
_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


class Watched(NamedTuple):
    """A broker and the port at which its clients are captured.

    `environment` tells a client how to log in, and which authority to trust; `key_logs` decrypt the capture.
    Behind TLS the broker's log does not name the connections of clients.
    """

    broker: ReleasedBroker
    port: int
    security: str = PLAIN
    environment: Mapping[str, str] = {}
    key_logs: tuple[Path, ...] = ()

    @property
    def bootstrap(self) -> str:
        """Where clients connect."""
        return f"{HOST}:{self.port}"


class LoginBroker(ReleasedBroker):
    """A broker that demands a login of its clients."""

    def _write_settings(self) -> None:
        super()._write_settings()
        properties = self._folder.properties
        text = properties.read_text().replace("WATCHED:PLAINTEXT", "WATCHED:SASL_PLAINTEXT")
        text += "listener.name.watched.sasl.enabled.mechanisms=PLAIN\n"
        login = f'{_LOGIN} required user_{USER}="{PASSWORD}";'
        properties.write_text(f"{text}listener.name.watched.plain.sasl.jaas.config={login}\n")


@contextmanager
def watched(release: str, security: str, folder: Path) -> Iterator[Watched]:
    """Run a broker for clients of one kind. Files of TLS are written to `folder`."""
    if security == TLS:
        (port,) = free_ports(1)
        tls = DemoTls(folder)
        with (
            ReleasedBroker(release, watched_advertised_port=port) as broker,
            TlsEndpoint(tls, (HOST, broker.ports.watched), port),
        ):
            yield Watched(broker, port, security, {"CLIENT_CA": str(tls.certificate)}, (tls.key_log,))
    elif security == SASL:
        with LoginBroker(release) as broker:
            login = {"CLIENT_USER": USER, "CLIENT_PASSWORD": PASSWORD}
            yield Watched(broker, broker.ports.watched, security, login)
    else:
        with ReleasedBroker(release) as broker:
            yield Watched(broker, broker.ports.watched)
