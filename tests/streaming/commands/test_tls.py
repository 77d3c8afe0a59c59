"""`--tls-keylog`: captures of TLS are judged, printed and fed like those of plaintext."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.decoders.tls.writer import SUITES, TlsWriter
from tests.decoders.wire.conversation import EVENTS
from tests.decoders.wire.encrypted import encrypted, packets
from tests.streaming.captures import write_packets
from tests.streaming.commands.ran import Kipwatch


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """A capture of TLS, beside a key log that only its owner can read."""
    writer = TlsWriter(*SUITES[-1])
    key_log = tmp_path / "keys"
    key_log.write_text(writer.key_log)
    key_log.chmod(0o600)
    return write_packets(tmp_path / "tls.pcap", packets(encrypted(EVENTS, writer)))


def test_check_judges_with_the_key_log_and_says_without_it_that_nothing_was_judged(
    kipwatch: Kipwatch, capture: Path
) -> None:
    keys = capture.with_name("keys")
    plain = write_packets(capture.with_name("plain.pcap"), packets(EVENTS))
    without, read = kipwatch("check", capture), kipwatch("check", capture, "--tls-keylog", keys)
    assert without.status == 2
    assert "nothing was judged" in without.output
    assert "skipped-opaque" in without.output
    assert read.errors == ""
    assert "skipped-tls" in read.output
    in_plaintext = kipwatch("check", plain)
    assert read.status == in_plaintext.status == 1
    assert read.output.splitlines()[-1] == in_plaintext.output.splitlines()[-1]


def test_decode_prints_frames_and_the_fate_of_each_byte(kipwatch: Kipwatch, capture: Path) -> None:
    flags = (capture, "--tls-keylog", capture.with_name("keys"))
    assert "ApiVersions v3 request" in kipwatch("decode", *flags).output
    account = json.loads(kipwatch("decode", "--ledger", "--jsonl", *flags).output.splitlines()[0])
    assert account["lost"] == 0
    assert account["captured"] == account["framed"] + account["skipped"]["tls"]


def test_feed_publishes_the_plaintext(kipwatch: Kipwatch, capture: Path) -> None:
    ran = kipwatch("feed", capture, "--dry-run", "--tls-keylog", capture.with_name("keys"))
    assert ran.status == 0
    assert "request API 18 v3" in ran.output
    events = [json.loads(line) for line in ran.output.splitlines() if line.startswith("{")]
    assert [event["event"] for event in events] == ["key-log-read", "ready", "tls-read", "stopped"]


@pytest.mark.parametrize("command", ["check", "decode", "report", "feed"])
def test_a_missing_key_log_is_one_line(kipwatch: Kipwatch, capture: Path, command: str) -> None:
    line = kipwatch(command, capture, "--tls-keylog", "nowhere").error_line
    assert line == "cannot read the key log nowhere: No such file or directory"


def test_a_key_log_that_everybody_can_read_is_warned_about(kipwatch: Kipwatch, capture: Path) -> None:
    keys = capture.with_name("keys")
    keys.chmod(0o644)
    ran = kipwatch("check", capture, "--tls-keylog", keys)
    assert ran.errors.startswith(f"kipwatch: every user of this host can read {keys}")


def test_secrets_are_in_no_output(kipwatch: Kipwatch, capture: Path, tmp_path: Path) -> None:
    keys = capture.with_name("keys")
    secrets = [line.split()[2] for line in keys.read_text().splitlines() if line and line[0] != "#"]
    printed = kipwatch("check", capture, "--tls-keylog", keys, "--evidence", tmp_path / "evidence").output
    printed += kipwatch("decode", "--jsonl", capture, "--tls-keylog", keys).output
    assert secrets
    assert not [secret for secret in secrets if secret in printed]
