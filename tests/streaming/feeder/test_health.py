"""Health and readiness of the feeder over HTTP."""

from __future__ import annotations

import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import cast

import pytest

from decoders.wire.columnar.frames import FrameBatch
from decoders.wire.columnar.packets import PacketBatch
from streaming.feeder import feeder as feeder_module
from streaming.feeder.capture import InterfaceCapture
from streaming.feeder.feeder import Feeder
from streaming.feeder.publisher import Publisher
from streaming.metrics.exposition import Exposition, serve
from streaming.settings.configuration import Configuration
from streaming.user_error import UserError
from tests.streaming.feeder.known_topic import KnownTopic
from tests.streaming.feeder.test_feeder import FakeCapture, FakeOutlet, packets
from tests.streaming.feeder.test_publisher import NOWHERE

PATIENCE = 20.0


def status(exposition: Exposition, path: str) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{exposition.port}{path}", timeout=5) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


def waiting_bytes(feeder: Feeder) -> float:
    return feeder.registry.get_sample_value("kipwatch_feed_waiting_bytes") or 0


def test_while_kafka_is_unreachable_the_feeder_is_healthy_and_not_ready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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
            publisher = Publisher(NOWHERE, "frames", {}, 100_000, feeder.waits, topic=KnownTopic())
            feeder.run(batches(), publisher)
        except UserError as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    with closing(serve(feeder.registry, 0, feeder.is_healthy, feeder.is_ready)) as exposition:
        assert (status(exposition, "/healthz"), status(exposition, "/readyz")) == (200, 503)
        thread.start()
        deadline = time.monotonic() + PATIENCE
        # It is ready until librdkafka has found the broker unreachable; the records wait for longer.
        while not (waiting := waiting_bytes(feeder)) or status(exposition, "/readyz") == 200:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert (status(exposition, "/healthz"), status(exposition, "/readyz")) == (200, 503)
        assert waiting > 0
        stopping.set()
        thread.join(PATIENCE)
    assert "did not accept 2 records" in str(failures[0])


class SlowOutlet(FakeOutlet):
    """Takes long for a batch, and calls a function meanwhile."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        super().__init__()
        self._meanwhile = meanwhile

    def publish_batch(self, batch: FrameBatch) -> None:
        for _ in range(6):
            time.sleep(0.1)
            self._meanwhile()


def test_a_stuck_feeder_is_unhealthy_and_one_that_waits_for_kafka_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A restart because Kafka is unreachable would lose the waiting records."""
    monkeypatch.setattr(feeder_module, "STUCK_AFTER", 0.4)
    feeder, stuck, waits = Feeder(Configuration(), run=1), list[bool](), list[bool]()
    feeder.run(map(PacketBatch.of, [packets()]), SlowOutlet(lambda: stuck.append(feeder.is_healthy())))
    assert (stuck[0], stuck[5]) == (True, False)

    def wait() -> None:
        waits.append(feeder.is_healthy())
        feeder.waits()

    feeder.run(map(PacketBatch.of, [packets()]), SlowOutlet(wait))
    assert all(waits)


def test_while_it_waits_for_kafka_the_metrics_page_is_updated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeder_module, "METRICS_INTERVAL", 0.0)
    capture, seen = FakeCapture(), list[float | None]()
    feeder = Feeder(Configuration(), run=1, capture=cast(InterfaceCapture, capture))

    def wait() -> None:
        capture.dropped += 1
        feeder.waits()
        seen.append(feeder.registry.get_sample_value("kipwatch_capture_dropped_packets_total"))

    feeder.run(map(PacketBatch.of, [packets()]), SlowOutlet(wait))
    assert seen[:3] == [4, 5, 6]
