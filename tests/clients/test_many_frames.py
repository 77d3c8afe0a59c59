"""Five million frames of real clients, judged: every record is a request of its own, and so is every fetch.

KIPWATCH_FLOOD_FRAMES is another number of frames.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from decoders.schema.registry import default_schemas
from streaming.check.examination import examine
from tests.captures.recording import captured
from tests.clients.installing import installed
from tests.clients.releases import ReleasedBroker
from tests.clients.running import new_topic, play
from tests.clients.table import table
from tests.streaming.feeder.live import captures

FRAMES = int(os.environ.get("KIPWATCH_FLOOD_FRAMES", "5_000_000"))
FRAMES_PER_RECORD = 4
"""A request and a response to send it, and the same to fetch it."""
SHARES = {"confluent_kafka": 0.9, "franz_go": 0.45}
"""The share of the frames that each client makes, had librdkafka to fetch its records one by one, too."""
HOUR = 3600.0

pytestmark = [pytest.mark.long, pytest.mark.jvm, pytest.mark.timeout(2 * HOUR)]


class SilentBroker(ReleasedBroker):
    """A broker without a request log, which would be larger than the traffic."""

    def _write_settings(self) -> None:
        super()._write_settings()
        logging = self._folder.logging
        logging.write_text(logging.read_text().replace("requests.level=debug", "requests.level=info"))


@captures
def test_five_million_frames_of_real_clients_violate_nothing(tmp_path: Path) -> None:
    capture, failed = tmp_path / "flood.pcap", dict[str, str]()

    def flood(name: str, share: float) -> None:
        client = next(client for client in table().client if client.folder == name)
        command = installed(client, client.versions[-1])
        records = {"CLIENT_RECORDS": str(int(FRAMES * share / FRAMES_PER_RECORD))}
        program = [*command, broker.watched, new_topic(), "administer", "flood"]
        failed[name] = play(program, tmp_path / f"{name}.output", records, patience=HOUR)

    with SilentBroker(table().brokers[0]) as broker, captured(broker.ports.watched, capture):
        threads = [threading.Thread(target=flood, args=one) for one in SHARES.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failed == dict.fromkeys(SHARES, "")
    examination = examine(capture, default_schemas(), [broker.ports.watched])
    assert examination.frames >= FRAMES
    assert [finding for finding in examination.findings if finding.level == "violation"] == []
    assert (examination.ledger["lost"], examination.undecodable) == (0, {})
