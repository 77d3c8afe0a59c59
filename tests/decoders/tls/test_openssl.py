"""Sessions of OpenSSL are decrypted: TLS 1.2 and 1.3, each cipher, resumption, key updates."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path
from random import Random

import pytest

from decoders.tls.handshake import HandshakeError, read_subject
from decoders.tls.outcome import TlsOutcome, UnreadableError
from decoders.tls.session import Side
from tests.decoders.tls.recorded import (
    Peers,
    RecordedClient,
    Recording,
    certificate,
    client_context,
    decrypted,
    openssl_server,
    server_context,
)
from tests.streaming.secure_broker import make_certificate

TLS_1_2, TLS_1_3 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
LARGE = bytes(range(256)) * 200
SUITES_1_2 = [
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
]
SUITES_1_3 = ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"]


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certificate(tmp_path_factory.mktemp("certificate"))


def talk(peers: Peers, key_log: Path) -> Recording:
    for number in range(3):
        peers.send(Side.CLIENT, b"request %d" % number)
        peers.send(Side.SERVER, LARGE if number == 1 else b"response %d" % number)
    peers.recording.key_log = key_log.read_text()
    return peers.recording


def assert_read(recording: Recording) -> None:
    plain, session = decrypted(recording.wire, recording.keys())
    assert plain == recording.plain
    assert session.is_read


@pytest.mark.parametrize(
    ("version", "cipher"),
    [*((TLS_1_2, suite) for suite in SUITES_1_2), (TLS_1_3, None)],
    ids=[*SUITES_1_2, "TLS 1.3"],
)
def test_both_directions_are_decrypted(
    version: ssl.TLSVersion, cipher: str | None, pem: Path, tmp_path: Path
) -> None:
    key_log = tmp_path / "keys"
    peers = Peers(client_context(key_log, version, cipher), server_context(pem))
    assert_read(talk(peers, key_log))


def test_tls_1_2_is_decrypted_with_secrets_by_session_id(pem: Path, tmp_path: Path) -> None:
    key_log, server = tmp_path / "keys", server_context(pem)
    # Without tickets the server gives its sessions IDs.
    server.options |= ssl.OP_NO_TICKET
    peers = Peers(client_context(key_log, TLS_1_2), server)
    recording = talk(peers, key_log)
    session = peers.ends[Side.CLIENT].session
    assert session is not None
    master = recording.key_log.split()[-1]
    recording.key_log = f"RSA Session-ID:{session.id.hex()} Master-Key:{master}\n"
    assert_read(recording)


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
def test_a_resumed_session_is_decrypted(version: ssl.TLSVersion, pem: Path, tmp_path: Path) -> None:
    key_log, server = tmp_path / "keys", server_context(pem)
    client = client_context(key_log, version)
    first = Peers(client, server)
    talk(first, key_log)
    second = Peers(client, server, first.ends[Side.CLIENT].session)
    assert second.ends[Side.CLIENT].session_reused
    assert_read(talk(second, key_log))


@pytest.mark.parametrize("suite", SUITES_1_3)
def test_key_updates_of_both_sides_are_followed(suite: str, pem: Path, tmp_path: Path) -> None:
    key_log = tmp_path / "keys"
    with openssl_server(pem, "-tls1_3", "-ciphersuites", suite, "-naccept", "1") as (server, port):
        client = RecordedClient(client_context(key_log, TLS_1_3), port)
        cipher = client.end.cipher()
        assert cipher is not None and cipher[0] == suite
        for round_ in range(3):
            _say(server, b"before %d\n" % round_, client)
            client.send(b"question %d\n" % round_)
            # OpenSSL's command for a KeyUpdate that asks the client for one, too.
            _command(server, b"K\n")
            client.receive_no_data()
            _say(server, b"behind %d\n" % round_, client)
            client.send(b"answer %d\n" % round_)
        client.close()
    client.recording.key_log = key_log.read_text()
    assert "TRAFFIC_SECRET_1" not in client.recording.key_log
    assert_read(client.recording)


def test_a_hello_retry_is_followed(pem: Path, tmp_path: Path) -> None:
    key_log, server = tmp_path / "keys", server_context(pem)
    server.set_ecdh_curve("secp384r1")
    recording = talk(Peers(client_context(key_log, TLS_1_3), server), key_log)
    hellos = [data for side, data in recording.wire if side is Side.CLIENT and b"\x16\x03\x03" in data[:20]]
    assert hellos, "the client has said hello once only"
    assert_read(recording)


def test_cbc_is_named_as_unsupported(pem: Path, tmp_path: Path) -> None:
    key_log = tmp_path / "keys"
    peers = Peers(client_context(key_log, TLS_1_2, "ECDHE-ECDSA-AES128-SHA256"), server_context(pem))
    recording = talk(peers, key_log)
    with pytest.raises(UnreadableError) as caught:
        decrypted(recording.wire, recording.keys())
    assert caught.value.outcome is TlsOutcome.UNSUPPORTED_SUITE


def _command(server: subprocess.Popen[bytes], line: bytes) -> None:
    assert server.stdin is not None
    server.stdin.write(line)
    server.stdin.flush()


def _say(server: subprocess.Popen[bytes], line: bytes, client: RecordedClient) -> None:
    _command(server, line)
    client.receive(len(line))


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
@pytest.mark.parametrize("is_kept", [True, False])
def test_the_subject_of_a_clients_certificate_is_read_where_it_is_kept(
    version: ssl.TLSVersion, is_kept: bool, pem: Path, tmp_path: Path
) -> None:
    recording = talk(mutual(version, pem, tmp_path / "keys"), tmp_path / "keys")
    plain, session = decrypted(recording.wire, recording.keys(), keeps_subject=is_kept)
    assert plain == recording.plain
    assert session.subject == ("CN=localhost" if is_kept else "")


def test_in_tls_1_3_the_secret_of_the_handshake_shows_it_and_nothing_else_misses_that(
    pem: Path, tmp_path: Path
) -> None:
    recording = talk(mutual(TLS_1_3, pem, tmp_path / "keys"), tmp_path / "keys")
    lines = recording.key_log.splitlines(keepends=True)
    recording.key_log = "".join(line for line in lines if not line.startswith("CLIENT_HANDSHAKE"))
    plain, session = decrypted(recording.wire, recording.keys(), keeps_subject=True)
    assert (plain, session.subject) == (recording.plain, "")


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
def test_a_client_without_a_certificate_has_no_subject(
    version: ssl.TLSVersion, pem: Path, tmp_path: Path
) -> None:
    client, server = client_context(tmp_path / "keys", version), server_context(pem)
    server.verify_mode = ssl.CERT_OPTIONAL
    server.load_verify_locations(pem)
    recording = talk(Peers(client, server), tmp_path / "keys")
    plain, session = decrypted(recording.wire, recording.keys(), keeps_subject=True)
    assert (plain, session.subject) == (recording.plain, "")


def test_a_subject_is_written_as_java_writes_it(tmp_path: Path) -> None:
    """Java and cryptography escape different characters; types without a short name are in hexadecimal."""
    made, _ = make_certificate(
        tmp_path,
        subject=r'  Kafka, "others"; \+1 #2 /OU=\+a+UID=b/emailAddress=a@example.org/serialNumber=12',
    )
    whole = ssl.PEM_cert_to_DER_cert(made.read_text())
    entry = len(whole).to_bytes(3) + whole
    assert read_subject(len(entry).to_bytes(3) + entry, has_context=False) == (
        "2.5.4.5=#13023132,1.2.840.113549.1.9.1=#160d61406578616d706c652e6f7267,"
        r"OU=\+a+UID=b,CN=\ \ Kafka\, \"others\"\; \+1 \#2\ "
    )


def test_a_damaged_certificate_is_refused_and_nothing_else(pem: Path) -> None:
    """Whoever connects may send one; what cannot be read names nobody."""
    whole, random = ssl.PEM_cert_to_DER_cert(pem.with_name("certificate.pem").read_text()), Random(1)
    read = 0
    for _ in range(3_000):
        damaged = bytearray(whole)
        for _ in range(random.randint(1, 3)):
            damaged[random.randrange(150)] = random.randrange(256)
        entry = len(damaged).to_bytes(3) + damaged
        try:
            read_subject(len(entry).to_bytes(3) + entry, has_context=False)
            read += 1
        except HandshakeError:
            pass
    assert 0 < read < 3_000


def mutual(version: ssl.TLSVersion, pem: Path, key_log: Path) -> Peers:
    """Peers that both show a certificate."""
    client, server = client_context(key_log, version), server_context(pem)
    client.load_cert_chain(pem)
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_verify_locations(pem)
    return Peers(client, server)
