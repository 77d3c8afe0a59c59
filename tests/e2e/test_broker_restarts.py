"""Clients that work on while their broker is stopped, killed and frozen are accused of nothing.

An hour by default, KIPWATCH_RESTART_SECONDS for another time. The verdicts per rule go to
KIPWATCH_RESTART_FOLDER, if it is set.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.captures.recording import recorded
from tests.e2e.restarting_broker import FROZEN, RestartingBroker
from tests.e2e.working_clients import TOPIC, working

SECONDS = int(os.environ.get("KIPWATCH_RESTART_SECONDS", "3600"))
FOLDER = os.environ.get("KIPWATCH_RESTART_FOLDER", "")
PERIOD = 60.0
"""Seconds between two outages."""

pytestmark = [
    pytest.mark.jvm,
    pytest.mark.e2e,
    pytest.mark.capture,
    pytest.mark.long,
    pytest.mark.timeout(SECONDS + 900),
]


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `check` says of all traffic of the clients."""
    capture = tmp_path_factory.mktemp("restarts") / "restarts.pcap"
    with RestartingBroker() as broker, recorded(broker.ports.watched, str(capture)):
        admin = AdminClient({"bootstrap.servers": broker.watched})
        for created in admin.create_topics([NewTopic(TOPIC, 3)]).values():
            created.result()
        with working(broker.watched):
            outages = itertools.cycle((broker.stopped, broker.killed, broker.forgot_its_members))
            deadline = time.monotonic() + SECONDS
            while time.monotonic() < deadline:
                time.sleep(PERIOD)
                next(outages)()
            time.sleep(PERIOD)
    command = [sys.executable, "-m", "streaming.commands.main", "check", "--json"]
    command += ["--ports", str(broker.ports.watched), str(capture)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if FOLDER:
        Path(FOLDER, "restarts.json").write_bytes(done.stdout)
        Path(FOLDER, "restarts.pcap").write_bytes(capture.read_bytes())
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_nobody_is_accused(summary: dict[str, Any]) -> None:
    assert not [finding for finding in summary["findings"] if finding["level"] == "violation"]


def test_the_outages_were_lived_through(summary: dict[str, Any]) -> None:
    """Clients connected anew after each, and the rules about heartbeats and negotiation were exercised."""
    outages = SECONDS / (PERIOD + FROZEN)
    assert summary["connections"] > 10 * outages
    conforming = {each["rule"] for each in summary["coverage"] if each["conforms"]}
    assert {"kip1082/member-id-empty", "kip511/software-name-malformed"} <= conforming
