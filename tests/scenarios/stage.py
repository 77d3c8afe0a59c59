"""The stage of the scenarios: a real broker with every listener they need, watched by recording relays."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from decoders.schema.registry import default_schemas
from decoders.wire.segment import Packet, TcpFlag
from expectations.judging.terms import Terms
from expectations.rules.catalogue import read_choices, rules_read_as
from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.ports import HOST, free_ports
from streaming.check.examination import Examination, examine
from streaming.demo.front import Front
from streaming.probe.client import (
    JOIN,
    LEAVE,
    TOPIC,
    InstanceClient,
    await_success,
    beat,
    find_coordinator,
    new_instance_id,
)
from streaming.record import relay
from streaming.record.relay import Passage, Unchanged
from streaming.record.rewriting import Address
from tests.exchange import ID_A
from tests.streaming.captures import write_packets
from tests.streaming.secure_broker import make_certificate

MEMBER = "kcjqdTIoQMuWKqjv0mmNEw"
READ = 6 * 1_000_000_000
"""Nanoseconds after which a relay takes a response for read, and some more."""
REAUTHENTICATION = 2_000
"""Milliseconds that an authentication holds."""
PATIENCE = 2.0
"""Seconds to wait for the end of connections that were closed."""
FLAGS_AT = 14 + 20 + 13
"""The offset of TCP's flags behind Ethernet and IPv4."""
USER, PASSWORD = "tester", "secret"
SCRAM = "SCRAM-SHA-256"


class StageBroker(EmbeddedBroker):
    """A broker with three listeners more: SECURED asks for SASL, ENCRYPTED speaks TLS, and there is LIFTED.

    Of each it tells clients another port, for a relay to stand there. ENCRYPTED has the `certificate`. The
    log of requests has those of SECURED, too.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.secured_port, self.secured_told, self.lifted_port, self.lifted_told = free_ports(4)
        self.encrypted_port, self.encrypted_told = free_ports(2)
        self.certificate, key = make_certificate(folder)
        self._keystore = folder / "keystore.pem"
        self._keystore.write_bytes(key.read_bytes() + self.certificate.read_bytes())

    def _write_settings(self) -> None:
        super()._write_settings()
        with self._folder.properties.open("a") as properties:
            properties.write(self._listeners())
        logging = self._folder.logging
        logging.write_text(logging.read_text().replace('"WATCHED"', '"(?:WATCHED|SECURED)"'))

    def _listeners(self) -> str:
        ports, security = self.ports, "org.apache.kafka.common.security"
        plain = f"WATCHED://{HOST}:{ports.watched},INTERNAL://{HOST}:{ports.internal}"
        listening = f"SECURED://{HOST}:{self.secured_port},LIFTED://{HOST}:{self.lifted_port}"
        told = f"SECURED://{HOST}:{self.secured_told},LIFTED://{HOST}:{self.lifted_told}"
        listening += f",ENCRYPTED://{HOST}:{self.encrypted_port}"
        told += f",ENCRYPTED://{HOST}:{self.encrypted_told}"
        plain_login = f"{security}.plain.PlainLoginModule"
        return f"""
listeners={plain},CONTROLLER://{HOST}:{ports.controller},{listening}
advertised.listeners={plain},{told}
listener.security.protocol.map=WATCHED:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_PLAINTEXT,LIFTED:PLAINTEXT,ENCRYPTED:SSL
listener.name.secured.sasl.enabled.mechanisms=PLAIN,{SCRAM}
listener.name.secured.plain.sasl.jaas.config={plain_login} required user_{USER}="{PASSWORD}";
listener.name.secured.{SCRAM.lower()}.sasl.jaas.config={security}.scram.ScramLoginModule required;
listener.name.secured.plain.connections.max.reauth.ms={REAUTHENTICATION}
listener.name.encrypted.ssl.keystore.type=PEM
listener.name.encrypted.ssl.keystore.location={self._keystore}
auto.create.topics.enable=true
"""


class Clock:
    """The relays' clock, which tests advance instead of waiting until a response counts as read."""

    def __init__(self) -> None:
        self._ahead = 0

    def time_ns(self) -> int:
        """Nanoseconds since the epoch, and how far the clock was moved."""
        return time.time_ns() + self._ahead

    def settle(self) -> None:
        """Advance until every response so far counts as read."""
        self._ahead += READ


class Watch:
    """What passed one recording relay."""

    def __init__(self, address: Address, packets: list[Packet]) -> None:
        self.address, self.packets = address, packets

    def client(self, client_id: str = "tester", host: str = HOST) -> InstanceClient:
        """Connect a client that sends what it is told to."""
        return InstanceClient(default_schemas(), self.address, client_id, new_instance_id(), host)


@dataclass
class Stage:
    """Where scenarios are played."""

    broker: StageBroker
    front: Front
    clock: Clock
    folder: Path

    @property
    def old(self) -> Address:
        """The real broker."""
        return HOST, self.broker.ports.watched

    @property
    def new(self) -> Address:
        """The real broker, made to speak KIP-1313."""
        return self.front.address

    @contextmanager
    def watch(
        self, target: Address, passage: Callable[[], Passage] = Unchanged, port: int = 0
    ) -> Iterator[Watch]:
        """Record what passes to a target, at a given port if clients know it by that."""
        packets: list[Packet] = []
        with relay.Relay(target, packets.extend, passage=passage, port=port) as recording:
            yield Watch(recording.address, packets)
            self._await_end(packets)

    def _await_end(self, packets: list[Packet]) -> None:
        """Wait, but not for long, until both sides of every connection have ended."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and not _have_ended(packets):
            time.sleep(0.005)

    def examine(
        self, *watches: Watch, readings: tuple[str, ...] = (), keeps_principals: bool = False
    ) -> Examination:
        """Judge what was recorded, all of it as one capture."""
        capture = self.folder / "scenario.pcap"
        packets = [packet for watch in watches for packet in watch.packets]
        write_packets(capture, sorted(packets, key=lambda packet: packet.captured_at))
        ports = [watch.address[1] for watch in watches]
        terms = Terms(rules_read_as(read_choices(readings)))
        return examine(capture, default_schemas(), ports, terms, keeps_principals=keeps_principals)


def _have_ended(packets: list[Packet]) -> bool:
    flags = [packet.data[FLAGS_AT] for packet in packets]
    opened = sum(flag & (TcpFlag.SYN | TcpFlag.ACK) == TcpFlag.SYN for flag in flags)
    resets = sum(bool(flag & TcpFlag.RST) for flag in flags)
    return opened <= resets + sum(bool(flag & TcpFlag.FIN) for flag in flags) // 2


def asked(examination: Examination, api: str) -> tuple[set[int], int]:
    """In which versions an API was asked for, and how often."""
    uses = [use for client in examination.clients for use in client.versions if use.api == api]
    return {version for use in uses for version in use.versions}, sum(use.requests for use in uses)


def found(examination: Examination) -> set[str]:
    """The rules that were broken."""
    return {finding.rule for finding in examination.findings}


@contextmanager
def raised_stage(
    folder: Path,
    made: Callable[[Path], StageBroker] = StageBroker,
    prepared: Callable[[EmbeddedBroker], None] | None = None,
) -> Iterator[Stage]:
    """Start the broker, its front and the clock."""
    clock = Clock()
    with pytest.MonkeyPatch.context() as patch, made(folder) as broker:
        patch.setattr(relay, "time", SimpleNamespace(time_ns=clock.time_ns))
        (prepared or prepare)(broker)
        with Front(default_schemas(), (HOST, broker.ports.watched)) as front:
            yield Stage(broker, front, clock, folder)


def furnish(broker: EmbeddedBroker) -> None:
    """Create topic and user."""
    admin = AdminClient({"bootstrap.servers": broker.internal, "log_level": 0})
    password = UserScramCredentialUpsertion(
        USER, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4_096), PASSWORD.encode()
    )
    for done in (admin.create_topics([NewTopic(TOPIC, 2)]), admin.alter_user_scram_credentials([password])):
        for each in done.values():
            each.result()


def prepare(broker: EmbeddedBroker) -> None:
    """Create topic and user, and wait until groups have a coordinator."""
    furnish(broker)
    with InstanceClient(default_schemas(), (HOST, broker.ports.internal), "stage", ID_A) as client:
        assert await_success(lambda: find_coordinator(client, 6)["coordinators"][0]["errorCode"])
        assert await_success(lambda: beat(client, MEMBER, JOIN)["errorCode"])
        beat(client, MEMBER, LEAVE)
