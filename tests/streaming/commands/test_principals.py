"""`--keep principal`: findings, report and archive name who logged in; without it nothing does."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Iterable
from pathlib import Path

import pytest

from decoders.tls.handshake import TLS_1_3
from decoders.wire.synthesis import SyntheticConnection
from tests.decoders.tls.recorded import certificate
from tests.decoders.tls.test_openssl import mutual
from tests.decoders.tls.writer import TlsWriter
from tests.decoders.wire.conversation import CLIENT, SECOND, SERVER
from tests.decoders.wire.encrypted import DIRECTIONS, SIDES
from tests.exchange import SOFTWARE, Exchange
from tests.streaming.captures import packets_of, write_packets
from tests.streaming.commands.ran import Kipwatch

NAME, SECRET = "zebra-user", "quagga-secret"
PLAIN = base64.b64encode(f"\0{NAME}\0{SECRET}".encode()).decode()
KEPT = ("--keep", "principal")


def offending(name: str = NAME, token: str = PLAIN, client: str = "10.0.0.1:40000") -> Exchange:
    """A client that logs in, and offends before and after."""
    exchange = Exchange(client=client)
    software = SOFTWARE | {"clientSoftwareName": "a b"}
    exchange.respond(exchange.request("ApiVersions", 4, software, client_id="app"))
    exchange.log_in(name, token=token, client_id="app")
    exchange.respond(exchange.request("Metadata", 12, client_id="app"))
    exchange.request("Metadata", 12, frame=bytes.fromhex("0003000c00000009ffff00ff"))
    exchange.close()
    return exchange


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """One client logs in, another does not."""
    other = Exchange(client="10.0.0.9:40000")
    other.respond(other.request("ApiVersions", 4, SOFTWARE | {"clientSoftwareName": "a b"}, client_id="app"))
    return write_packets(tmp_path / "login.pcap", [*packets_of(offending()), *packets_of(other)])


def findings(kipwatch: Kipwatch, *arguments: object) -> list[dict[str, object]]:
    return [json.loads(line) for line in kipwatch("check", "--jsonl", *arguments).output.splitlines()]


def files_in(folder: Path) -> Iterable[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def test_findings_name_who_logged_in_also_where_they_were_made_before(
    kipwatch: Kipwatch, capture: Path
) -> None:
    found = findings(kipwatch, *KEPT, capture)
    of_user = {each["rule"] for each in found if each.get("principal") == NAME}
    assert of_user > {"kip511/software-name-malformed"} and len(of_user) > 1
    assert {(each["client"], each.get("principal")) for each in found} == {
        ("10.0.0.1:40000", NAME),
        ("10.0.0.9:40000", None),
    }
    plain = findings(kipwatch, capture)
    assert not any("principal" in each for each in plain)

    def likeness(each: dict[str, object]) -> object:
        return each["rule"], each["client"], each["occurrences"], each["context"]

    assert [likeness(each) for each in found] == [likeness(each) for each in plain]


def test_over_tls_the_name_is_read_with_a_key_log(kipwatch: Kipwatch, tmp_path: Path) -> None:
    writer = TlsWriter(TLS_1_3, 0x1301)
    path = write_packets(tmp_path / "tls.pcap", packets_of(offending(), writer))
    log = tmp_path / "keys.log"
    log.write_text(writer.key_log)
    found = findings(kipwatch, *KEPT, "--tls-keylog", log, path)
    assert {each.get("principal") for each in found} == {NAME}


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_the_subject_of_a_clients_certificate_is_its_principal(
    kipwatch: Kipwatch, tmp_path: Path, version: ssl.TLSVersion
) -> None:
    """OpenSSL's records, in packets of ours."""
    log, path = tmp_path / "keys.log", tmp_path / "mutual.pcap"
    peers = mutual(version, certificate(tmp_path), log)
    exchange = Exchange()
    exchange.respond(exchange.request("ApiVersions", 4, SOFTWARE | {"clientSoftwareName": "a b"}))
    exchange.respond(exchange.request("Metadata", 12))
    for record in exchange.records:
        if record.frame:
            peers.send(SIDES[record.direction], len(record.frame).to_bytes(4) + record.frame)
    connection = SyntheticConnection(CLIENT, SERVER)
    packets = connection.opened(0)
    for number, (side, data) in enumerate(peers.recording.wire, 1):
        packets += connection.sent(number * SECOND, DIRECTIONS[side], data)
    write_packets(path, packets)
    named = {each.get("principal") for each in findings(kipwatch, *KEPT, "--tls-keylog", log, path)}
    assert named == {"CN=localhost"}
    plain = kipwatch("check", "--jsonl", "--tls-keylog", log, path).output
    assert "a b" in plain and "localhost" not in plain


@pytest.mark.parametrize("kept", [(), KEPT])
def test_a_name_is_where_it_was_asked_for_and_a_secret_nowhere(
    kipwatch: Kipwatch, capture: Path, tmp_path: Path, kept: tuple[str, ...]
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    printed = [
        kipwatch("check", *kept, capture, "--evidence", folder / "evidence", "--junit", folder / "junit.xml"),
        kipwatch("check", *kept, "--json", "--coverage", capture),
        kipwatch("report", *kept, capture, "--html", folder / "page.html", "--archive", folder / "archive"),
        kipwatch("report", *kept, "--json", capture),
    ]
    content = b"".join(path.read_bytes() for path in files_in(folder))
    written = content + "".join(ran.output + ran.errors for ran in printed).encode()
    assert SECRET.encode() not in written
    assert (NAME.encode() in written) == bool(kept)
    assert not any(NAME.encode() in path.read_bytes() for path in files_in(folder / "evidence"))
    if kept:
        assert f"10.0.0.1:40000 as {NAME} → " in " ".join(printed[0].output.split())
        assert f"principals: {NAME}\n" in printed[2].output
        assert f"<dt>principal</dt><dd>{NAME}</dd>" in (folder / "page.html").read_text()
        parquet = next((folder / "archive" / "findings").rglob("*.parquet"))
        assert NAME.encode() in parquet.read_bytes()


def test_a_principal_has_an_owner(kipwatch: Kipwatch, capture: Path, tmp_path: Path) -> None:
    owners = tmp_path / "owners.toml"
    owners.write_text('[[owner]]\nname = "stripes"\nprincipal = "zebra-*"\n')
    found = findings(kipwatch, *KEPT, "--owners", owners, capture)
    assert {(each.get("principal"), each["owner"]) for each in found} == {(NAME, "stripes"), (None, None)}
    assert {each["owner"] for each in findings(kipwatch, "--owners", owners, capture)} == {None}
    ran = kipwatch("owners", "check", owners, *KEPT, capture)
    assert "stripes\n  10.0.0.1  " in ran.output and f"  as {NAME}  1 connection" in ran.output


def test_with_pseudonyms_a_principal_is_one(kipwatch: Kipwatch, capture: Path, tmp_path: Path) -> None:
    key, config, owners = (tmp_path / name for name in ("key", "config.toml", "owners.toml"))
    key.write_text("ab" * 32)
    config.write_text(f'identities = "keyed-hash"\nidentities_key = "file:{key}"\nkeep = ["principal"]\n')
    owners.write_text(f'[[owner]]\nname = "stripes"\nprincipal = "{NAME}"\n')
    ran = kipwatch("check", "--jsonl", "--config", config, "--owners", owners, capture)
    assert NAME not in ran.output
    found = [json.loads(line) for line in ran.output.splitlines()]
    named = {(each.get("principal", "")[:1], each["owner"]) for each in found}
    assert named == {("~", "stripes"), ("", None)}
    owners.write_text('[[owner]]\nname = "stripes"\nprincipal = "zebra-*"\n')
    ran = kipwatch("check", "--config", config, "--owners", owners, capture)
    assert ran.status == 2 and "principal must name one client in full" in ran.errors


def test_markup_in_a_principal_is_shown_and_does_nothing(kipwatch: Kipwatch, tmp_path: Path) -> None:
    name = "[red]<b>zebra"
    token = base64.b64encode(f"\0{name}\0{SECRET}".encode()).decode()
    path = write_packets(tmp_path / "markup.pcap", packets_of(offending(name, token)))
    page = tmp_path / "page.html"
    ran = kipwatch("report", *KEPT, path, "--html", page)
    assert f"principals: {name}\n" in ran.output
    assert "[red]&lt;b&gt;zebra" in page.read_text() and "<b>zebra" not in page.read_text()
    assert f" as {name} → " in " ".join(kipwatch("check", *KEPT, path).output.split())


def test_another_thing_to_keep_is_refused(kipwatch: Kipwatch, capture: Path) -> None:
    ran = kipwatch("check", "--keep", "password", capture)
    assert ran.status == 2 and "--keep" in ran.errors and ran.errors.count("\n") == 1
