"""A live feeder reads TLS of real clients and a real broker: each request is one that the broker logged."""

from __future__ import annotations

import shutil
import socket
import ssl
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation, ResourceType

from decoders.frame.record import Kind, Record
from decoders.schema.registry import default_schemas
from streaming.check.examination import examine
from streaming.commands.record import BOOTSTRAP_VARIABLE
from streaming.probe.client import TOPIC
from streaming.settings.kafka_client import Setting, librdkafka_settings
from tests.decoders.wire.conversation import api_versions, metadata, prefixed, request
from tests.scenarios.new_clients import run_new_clients, trusting
from tests.streaming.broker.request_log import read_request_log
from tests.streaming.commands.ran import run_process
from tests.streaming.feeder.live import LiveFeeder, assert_same_requests, captures
from tests.streaming.feeder.test_live import published
from tests.streaming.secure_broker import MECHANISMS, PASSWORD, PASSWORD_VARIABLE, USER
from tests.tls.key_logging_broker import LISTENERS, PRINCIPAL, KeyLoggingBroker
from tests.tls.told import told
from tests.tls.tshark import assert_tshark_reads_the_same

pytestmark = [pytest.mark.jvm, pytest.mark.slow, pytest.mark.timeout(400)]

PROGRAMS = Path(__file__).parent / "programs"
REQUESTS = (api_versions(1), metadata(2), api_versions(3))
MALFORMED = request("ApiVersions", 3, 4, clientSoftwareName="no name", clientSoftwareVersion="1.0")
NAME_MALFORMED = "kip511/software-name-malformed"
OUT_OF_RANGE = "kip35/version-out-of-range"
SETTLED = 1.5
"""Seconds after an ApiVersions response when later requests count as sent with its knowledge."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeyLoggingBroker]:
    with (
        pytest.MonkeyPatch.context() as environment,
        KeyLoggingBroker(tmp_path_factory.mktemp("tls")) as made,
    ):
        environment.setenv(PASSWORD_VARIABLE, PASSWORD)
        made.add_scram_users()
        made.create_topic()
        made.grant(USER, (ResourceType.TOPIC, TOPIC, AclOperation.WRITE))
        yield made


def produce(bootstrap: str, settings: Mapping[str, Setting]) -> None:
    """Let librdkafka produce a message."""
    failed: list[object] = []
    given = librdkafka_settings(bootstrap, settings)
    with Producer(given) as producer:
        producer.produce(TOPIC, b"message", on_delivery=lambda error, _: failed.append(error))
        assert producer.flush(30) == 0
    assert failed == [None]


def connected(address: str, trusted: Path, version: ssl.TLSVersion | None) -> socket.socket:
    """Connect by a version of TLS, or in plaintext."""
    host, port = address.split(":")
    connection = socket.create_connection((host, int(port)))
    if version is None:
        return connection
    context = ssl.create_default_context(cafile=str(trusted))
    context.minimum_version = context.maximum_version = version
    # The curve of the certificate leaves ECDSA; of TLS 1.3 the client prefers AES-256.
    context.set_ciphers("ECDHE-ECDSA-CHACHA20-POLY1305")
    return context.wrap_socket(connection, server_hostname=host)


def say(connection: socket.socket, frames: tuple[bytes, ...], pause: float = 0) -> None:
    """Send frames, wait for the response to each, and close."""
    with connection:
        for frame in frames:
            connection.sendall(prefixed(frame))
            if connection.recv(4):
                connection.recv(1 << 16)
            time.sleep(pause)


def run_program(broker: KeyLoggingBroker, name: str, folder: Path) -> None:
    """Let a client in Go or JavaScript send REQUESTS and MALFORMED in plaintext, by TLS 1.2 and 1.3."""
    command = {"client.go": ["go", "run"], "client.js": ["node"]}[name]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    for address, version in ((broker.watched, "plain"), (broker.old, "1.2"), (broker.tls, "1.3")):
        arguments = [address, str(broker.certificate), str(folder / "client.keys"), version]
        sent = [frame.hex() for frame in (*REQUESTS, MALFORMED)]
        subprocess.run([*command, str(PROGRAMS / name), *arguments, *sent], check=True, timeout=200)


def feeding(broker: KeyLoggingBroker, folder: Path, *flags: str) -> LiveFeeder:
    given = ["--tls-keylog", str(broker.key_log), *flags]
    return LiveFeeder(folder / "feed.log", broker.client_ports, broker.internal, *given)


def assert_told_alike(broker: KeyLoggingBroker, capture: Path, key_log: Path) -> None:
    """Assert that the findings in plaintext, over TLS 1.2 and over TLS 1.3 are alike, and one accuses."""
    plain, *encrypted = (told(capture, at, key_log) for at in (broker.watched, broker.old, broker.tls))
    assert encrypted == [plain, plain]
    assert NAME_MALFORMED in {finding[0] for finding in plain}


def records_of(broker: KeyLoggingBroker) -> list[Record]:
    """What was published of all listeners but that of SASL, whose first requests no log has."""
    return [record for record in published(broker) if str(record.server) != broker.sasl]


@captures
def test_every_request_over_tls_is_the_one_that_the_broker_logged(
    broker: KeyLoggingBroker, tmp_path: Path
) -> None:
    """TLS 1.2 and 1.3, AES and ChaCha20, client certificates, SCRAM; keys are logged while packets come."""
    trusting: dict[str, Setting] = {"security.protocol": "SSL", "ssl.ca.location": str(broker.certificate)}
    capture = tmp_path / "tls.pcap"
    listeners: list[tuple[str, ssl.TLSVersion | None, dict[str, Setting]]] = [
        (broker.watched, None, {}),
        (broker.old, ssl.TLSVersion.TLSv1_2, trusting),
        (broker.tls, ssl.TLSVersion.TLSv1_3, trusting),
    ]
    with feeding(broker, tmp_path, "--save", str(capture)) as feeder:
        for address, version, settings in listeners:
            produce(address, settings)
            say(connected(address, broker.certificate, version), (*REQUESTS, MALFORMED))
        produce(broker.mutual, broker.certified())
        produce(broker.sasl, broker.login(USER, "SCRAM-SHA-256"))
        time.sleep(1)
        stopped = feeder.stop()
    lines = [line for line in read_request_log(broker.request_log) if line.listener != "SASL"]
    assert {line.listener for line in lines if line.client_id == "rdkafka"} == {*LISTENERS} - {"SASL"}
    assert_same_requests(records_of(broker), lines)
    assert stopped["bytes"]["lost"] == 0
    assert "skipped-encrypted" not in stopped["bytes"]
    sasl = [record for record in published(broker) if str(record.server) == broker.sasl]
    assert Kind.REQUEST in {record.kind for record in sasl}
    assert not [record for record in sasl if PASSWORD.encode() in record.frame]
    assert_tshark_reads_the_same(capture, broker.key_log, broker.tls_ports)
    assert_told_alike(broker, capture, broker.key_log)
    for address in (broker.mutual, broker.sasl):
        assert not told(capture, address, broker.key_log)


@captures
@pytest.mark.parametrize("client", ["librdkafka", pytest.param("Java", marks=pytest.mark.long)])
def test_each_principal_is_the_one_that_the_broker_logged(
    broker: KeyLoggingBroker, tmp_path: Path, client: str
) -> None:
    """By certificate over TLS 1.2 and 1.3, and by each mechanism of SASL; on every connection."""
    capture, keystore = tmp_path / "tls.pcap", tmp_path / "keystore.pem"
    keystore.write_bytes(broker.client_key.read_bytes() + broker.client_certificate.read_bytes())
    java = [*trusting(broker.certificate), "ssl.keystore.type=PEM", f"ssl.keystore.location={keystore}"]
    before = len(list(read_request_log(broker.request_log)))
    logins = [broker.login(USER, name) for name in MECHANISMS if name != "OAUTHBEARER"]
    with feeding(broker, tmp_path, "--save", str(capture), "--keep", "principal"):
        for address in (broker.old, broker.mutual):
            if client == "Java":
                run_new_clients(int(address.rpartition(":")[2]), settings=java)
            else:
                produce(address, broker.certified())
        for login in (*logins, broker.token_login(USER)):
            produce(broker.sasl, login)
        time.sleep(1)
    lines = list(read_request_log(broker.request_log))[before:]
    logged = {line.client: line.principal for line in lines if line.listener in {"OLD", "MUTUAL", "SASL"}}
    records = published(broker)
    run = max(record.run for record in records)
    shown = [record for record in records if record.kind is Kind.PRINCIPAL]
    named = {str(one.client): f"User:{one.frame.decode()}" for one in shown if one.run == run}
    assert named == logged
    assert set(logged.values()) == {f"User:{PRINCIPAL}", f"User:{USER}"}
    for keeps_principals, expected in ((True, {PRINCIPAL, USER}), (False, {None})):
        judged = examine(
            capture,
            default_schemas(),
            broker.tls_ports,
            key_logs=[broker.key_log],
            keeps_principals=keeps_principals,
        )
        assert {party.principal for party, _ in judged.parties} == expected


@captures
@pytest.mark.parametrize("name", ["client.go", "client.js"])
def test_clients_that_log_their_keys_themselves_need_no_agent(
    broker: KeyLoggingBroker, tmp_path: Path, name: str
) -> None:
    capture, keys = tmp_path / "tls.pcap", tmp_path / "client.keys"
    with feeding(broker, tmp_path, "--save", str(capture)):
        run_program(broker, name, tmp_path)
        time.sleep(1)
    judged = examine(capture, default_schemas(), broker.client_ports, key_logs=[keys])
    assert judged.frames == 3 * 2 * len((*REQUESTS, MALFORMED))
    assert_told_alike(broker, capture, keys)


def test_a_client_behind_record_is_judged_on_a_listener_that_demands_certificates(
    broker: KeyLoggingBroker, tmp_path: Path
) -> None:
    program = (
        "import os, sys; from confluent_kafka.admin import AdminClient; "
        f"admin = AdminClient({{'bootstrap.servers': os.environ['{BOOTSTRAP_VARIABLE}']}}); "
        "admin.list_topics(timeout=float(sys.argv[1]))"
    )
    flags = ["--bootstrap", broker.mutual, "--save", str(tmp_path / "recorded.pcap"), "--upstream-tls"]
    flags += ["--upstream-ca", str(broker.certificate)]
    certificate = ["--upstream-certificate", str(broker.client_certificate)]
    certificate += ["--upstream-key", str(broker.client_key)]
    client = ["--", sys.executable, "-c", program]
    recorded = run_process("record", *flags, *certificate, *client, "60")
    assert recorded.status == 0, recorded
    *_, verdict = recorded.output.splitlines()
    assert "rules exercised" in verdict
    assert "violation" not in verdict
    assert run_process("record", *flags, *client, "2").status == 2


@captures
def test_an_offence_over_tls_is_found(broker: KeyLoggingBroker, tmp_path: Path) -> None:
    list_offsets_0 = struct.pack(">hhih8s", 2, 0, 2, 8, b"offender") + struct.pack(">ii", -1, 0)
    capture = tmp_path / "tls.pcap"
    with feeding(broker, tmp_path, "--save", str(capture)):
        for second in (list_offsets_0, metadata(2)):
            connection = connected(broker.tls, broker.certificate, ssl.TLSVersion.TLSv1_3)
            say(connection, (api_versions(1), second), SETTLED)
        time.sleep(1)
    judged = examine(capture, default_schemas(), broker.tls_ports, key_logs=[broker.key_log])
    assert {finding.rule for finding in judged.findings if finding.level == "violation"} >= {OUT_OF_RANGE}
    without = examine(capture, default_schemas(), broker.tls_ports)
    assert (without.frames, without.findings) == (0, [])
