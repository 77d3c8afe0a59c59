"""Three clients at the pinned broker: their requests are those that it logged, and they violate nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.installing import MissingError, installed
from tests.clients.running import run
from tests.clients.securing import PLAIN, watched
from tests.clients.table import table
from tests.streaming.feeder.live import captures

QUICK = {"kafka_python": "3.0.12", "kafka_go": "0.4.51", "java": "4.4.0"}
"""The clients that are run in each test run, by the folder of their program."""

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]


@captures
def test_clients_are_judged_and_agree_with_the_log(tmp_path: Path) -> None:
    played = 0
    with watched("4.4.0", PLAIN, tmp_path) as broker:
        for client in table().client:
            if client.folder not in QUICK:
                continue
            version = QUICK[client.folder]
            try:
                command = installed(client, version)
            except MissingError as missing:
                print(f"skipped: {client.name}: {missing}")
                continue
            steps = client.steps_of(version, broker.broker.release)
            result = run(command, broker, tmp_path / "client.pcap", steps, (client.name, version))
            assert (result.failed, result.differing, result.undecodable) == ("", 0, {}), result
            assert (result.other_bodies, result.bodies > 50) == ([], True)
            assert result.violations == set(), result.findings
            assert result.equal > 50
            played += 1
    assert played
