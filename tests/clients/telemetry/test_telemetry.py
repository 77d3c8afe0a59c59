"""Clients push their metrics to a real broker, whose plug-in receives them. No rule is violated."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.installing import installed
from tests.clients.running import run
from tests.clients.securing import Watched
from tests.clients.table import table
from tests.clients.telemetry.receiving_broker import ReceivingBroker
from tests.streaming.feeder.live import captures

CLIENTS = ("java", "confluent_kafka")
STEPS = ["administer", "produce", "consume"]

pytestmark = [pytest.mark.jvm, pytest.mark.long, pytest.mark.timeout(600)]


@captures
@pytest.mark.parametrize("folder", CLIENTS)
def test_a_client_pushes_its_metrics(folder: str, tmp_path: Path) -> None:
    client = next(client for client in table().client if client.folder == folder)
    version = client.versions[-1]
    command = installed(client, version)
    with ReceivingBroker(table().brokers[0], tmp_path) as broker:
        broker.subscribe()
        watched = Watched(broker, broker.ports.watched)
        result = run(command, watched, tmp_path / "client.pcap", STEPS, (client.name, version))
        pushes = broker.pushes()
    assert len(pushes) > 1
    assert min(push.size for push in pushes) > 0
    assert (result.failed, result.differing, result.undecodable) == ("", 0, {}), result
    assert result.violations == set()
    conforming, *others = result.checks["kip1313/telemetry-id-mismatch"]
    assert (conforming > 0, others) == (True, [0, 0])
