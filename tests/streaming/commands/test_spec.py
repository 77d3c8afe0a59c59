"""`kipwatch check --spec` chooses the reading of a KIP, and refuses unknown ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.exchange import Exchange
from tests.streaming.captures import write_capture
from tests.streaming.commands.ran import Ran

Kipwatch = Callable[..., Ran]


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """A heartbeat of version 1 without a member ID, which the text of the KIP does not require there."""
    exchange = Exchange()
    body = {"groupId": "g", "memberId": "", "memberEpoch": 0}
    exchange.request("ConsumerGroupHeartbeat", 1, body, client_id="app")
    exchange.close()
    return write_capture(tmp_path / "heartbeat.pcap", exchange)


@pytest.mark.parametrize(("flags", "status"), [([], 1), (["--spec", "kip1082=text"], 0)])
def test_the_reading_decides(kipwatch: Kipwatch, capture: Path, flags: list[str], status: int) -> None:
    ran = kipwatch("check", "--json", *flags, str(capture))
    rules = {finding["rule"] for finding in json.loads(ran.output)["findings"]}
    assert (ran.status, "kip1082/member-id-empty" in rules) == (status, bool(status))


@pytest.mark.parametrize("choice", ["kip1082=loose", "kip9=text"])
def test_an_unknown_choice_is_refused_in_one_line(kipwatch: Kipwatch, choice: str) -> None:
    ran = kipwatch("check", "--spec", choice, "any.pcap")
    assert ran.error_line.startswith(f"spec: '{choice}' names no ")
