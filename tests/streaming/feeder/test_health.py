"""What whoever supervises a feeder is told over HTTP."""

from __future__ import annotations

import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing

import pytest

from decoders.wire.columnar.packets import PacketBatch
from streaming.configuration import Configuration
from streaming.exposition import Exposition, serve
from streaming.failure import UserError
from streaming.feeder import feeder as feeder_module
from streaming.feeder.feeder import Feeder
from streaming.feeder.publisher import Publisher
from tests.streaming.feeder.test_feeder import packets
from tests.streaming.feeder.test_publisher import NOWHERE

PATIENCE = 20.0


def status(exposition: Exposition, path: str) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{exposition.port}{path}", timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refusal:
        return refusal.code


def waiting_bytes(feeder: Feeder) -> float:
    return feeder.registry.get_sample_value("kipwatch_feed_waiting_bytes") or 0


def test_while_kafka_is_away_the_feeder_is_healthy_and_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeder_module, "FLUSH_SECONDS", 0.1)
    stopping = threading.Event()
    feeder = Feeder(Configuration(), run=1, stopping=stopping)
    failures: list[UserError] = []

    def batches() -> Iterator[PacketBatch]:
        yield PacketBatch.of(packets())
        while not stopping.wait(0.05):
            yield PacketBatch.of([])
        yield PacketBatch.of([])

    def run() -> None:
        try:
            feeder.run(batches(), Publisher(NOWHERE, "frames", {}, 100_000, stopping.is_set))
        except UserError as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    with closing(serve(feeder.registry, 0, feeder.is_healthy, feeder.is_ready)) as exposition:
        assert (status(exposition, "/healthz"), status(exposition, "/readyz")) == (200, 503)
        thread.start()
        deadline = time.monotonic() + PATIENCE
        # Ready until librdkafka has found that nobody is there, and the records wait for longer.
        while not (waiting := waiting_bytes(feeder)) or status(exposition, "/readyz") == 200:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert (status(exposition, "/healthz"), status(exposition, "/readyz")) == (200, 503)
        assert waiting > 0
        stopping.set()
        thread.join(PATIENCE)
    assert "did not take 2 records" in str(failures[0])
