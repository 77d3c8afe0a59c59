"""`--max-request-bytes` means the same in every command that reads captures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.exchange import Exchange
from tests.streaming.captures import write_capture
from tests.streaming.commands.ran import Kipwatch, Ran

RULE = "wire/frame-size-invalid"


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """A request of about three kilobytes, after which the broker closes."""
    exchange = Exchange()
    exchange.negotiate(client_id="app")
    topics = [{"name": f"a-topic-with-a-name-{number}"} for number in range(100)]
    exchange.request("Metadata", 12, {"topics": topics}, client_id="app")
    exchange.close()
    return write_capture(tmp_path / "large.pcap", exchange)


def rules(ran: Ran) -> set[str]:
    return {finding["rule"] for finding in json.loads(ran.output)["findings"]}


def test_a_capture_is_judged_by_the_brokers_own_limit(kipwatch: Kipwatch, capture: Path) -> None:
    assert RULE not in rules(kipwatch("check", capture, "--json"))
    assert RULE in rules(kipwatch("check", capture, "--json", "--max-request-bytes", 1024))
    config = capture.with_name("kipwatch.toml")
    config.write_text("max_request_bytes = 1024\n")
    assert RULE in rules(kipwatch("check", capture, "--json", "--config", config))


def test_evidence_of_a_request_that_is_too_large_shows_it_again(
    kipwatch: Kipwatch, capture: Path, tmp_path: Path
) -> None:
    flags = ["--json", "--max-request-bytes", 1024]
    ran = kipwatch("check", capture, *flags, "--evidence", tmp_path / "evidence")
    assert not ran.errors
    (shown,) = (tmp_path / "evidence").glob("wire-frame-size-invalid-*.pcap")
    assert RULE in rules(kipwatch("check", shown, *flags))


def test_decode_shows_the_length_that_is_too_large(kipwatch: Kipwatch, capture: Path) -> None:
    assert "not a frame" not in kipwatch("decode", capture).output
    shown = kipwatch("decode", capture, "--max-request-bytes", 1024).output
    assert "not a frame: its length would be" in shown
