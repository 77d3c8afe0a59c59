"""One run of the feeder without an interface and without Kafka, and its health and readiness over HTTP."""

from __future__ import annotations

import io
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import repeat
from types import SimpleNamespace
from typing import Any, cast

import pytest

from decoders.frame.record import Kind, Record
from decoders.wire.columnar.frames import FrameBatch
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.eviction import MAX_CONNECTIONS, closed_at_once, max_half_open
from decoders.wire.segment import Packet, SocketAddress
from decoders.wire.synthesis import SyntheticConnection
from streaming.feeder import feeder as feeder_module
from streaming.feeder.capture import InterfaceCapture
from streaming.feeder.feeder import STUCK_AFTER, Feeder
from streaming.feeder.publisher import Publisher
from streaming.metrics.exposition import Exposition, serve
from streaming.settings.configuration import Configuration
from streaming.user_error import UserError
from tests.decoders.wire.conversation import CLIENT, SERVER, TO_BROKER, metadata, prefixed
from tests.streaming.feeder.known_topic import KnownTopic
from tests.streaming.feeder.test_publisher import NOWHERE
from tests.waiting import until

PATIENCE = 20.0


class FakeOutlet:
    """An outlet that accepts every record, or has failed."""

    shed_bytes, waiting_bytes = 5, 7

    def __init__(self, fatal: str = "", left: int = 0, refused: int = 0) -> None:
        self.records: list[Record] = []
        self.fatal, self._left, self._refused = fatal, left, refused
        self.is_accepting = not fatal

    @property
    def fates(self) -> dict[str, int]:
        return {"delivered": len(self.records), "refused": self._refused, "shed": 0}

    def publish(self, record: Record) -> None:
        self.records.append(record)

    def publish_batch(self, batch: FrameBatch) -> None:
        self.records.extend(batch.records())

    def poll(self) -> None:
        pass

    def flush(self, seconds: float) -> int:
        return self._left


def packets() -> list[Packet]:
    synthetic = SyntheticConnection(CLIENT, SERVER)
    return [*synthetic.opened(1), *synthetic.sent(2, TO_BROKER, prefixed(metadata(1)))]


def batches(*sent: list[Packet]) -> Iterator[PacketBatch]:
    return map(PacketBatch.of, sent)


def test_packets_become_records_and_the_metrics_count_them() -> None:
    feeder, outlet = Feeder(Configuration(), run=1), FakeOutlet()
    assert not feeder.is_ready()
    feeder.run(batches(packets(), []), outlet)
    assert feeder.is_ready() and feeder.is_healthy()
    assert [record.kind for record in outlet.records] == [Kind.OPENED, Kind.REQUEST]
    value = feeder.registry.get_sample_value
    assert value("kipwatch_feed_records_total", {"fate": "delivered"}) == 2
    assert value("kipwatch_feed_shed_bytes_total") == 5
    assert value("kipwatch_feed_waiting_bytes") == 7
    assert value("kipwatch_capture_bytes_total", {"fate": "framed"}) == len(prefixed(metadata(1)))


def test_records_that_kafka_refused_or_did_not_accept_in_time_are_an_error() -> None:
    with pytest.raises(UserError, match="did not accept 3 records"):
        Feeder(Configuration(), run=1).run(batches(packets()), FakeOutlet(left=1, refused=2))


def test_when_no_record_can_be_published_any_more_the_feeder_ends() -> None:
    feeder = Feeder(Configuration(), run=1)
    with pytest.raises(UserError, match=r"^fenced$"):
        feeder.run(batches(packets(), packets()), FakeOutlet(fatal="fenced"))
    assert not feeder.is_ready()


def test_a_stopped_feeder_reads_no_further() -> None:
    stopping, outlet = threading.Event(), FakeOutlet()
    feeder = Feeder(Configuration(), run=1, stopping=stopping)
    stopping.set()
    feeder.run(batches(packets(), packets()), outlet)
    assert len(outlet.records) == 2


class FakeCapture:
    """A capture with many unread packets."""

    dropped, unread = 3, 1_000
    read_until: int | None = None


def last_event(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    event: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return event


def stopped(capture: object) -> Feeder:
    stopping = threading.Event()
    stopping.set()
    live = cast(InterfaceCapture, capture)
    return Feeder(Configuration(), run=1, capture=live, stopping=stopping)


def test_what_was_captured_before_the_stop_is_read_and_no_more(capsys: pytest.CaptureFixture[str]) -> None:
    late = [packet._replace(captured_at=time.time_ns() + 10**12) for packet in packets()]
    read = batches(packets(), packets(), late, late)
    stopped(FakeCapture()).run(read, FakeOutlet())
    assert next(read).size == len(late)
    event = last_event(capsys)
    assert (event["dropped_packets"], event["unread_packets"]) == (3, 0)


def test_an_interface_that_is_behind_is_read_up_to_the_stop() -> None:
    """Packets of another interface that were captured after the stop do not end the feeder."""
    capture, late = FakeCapture(), time.time_ns() + 10**12
    after = [packet._replace(captured_at=late) for packet in packets()]
    yielded: list[int] = []

    def read() -> Iterator[PacketBatch]:
        for captured in (1, 2, late, late):
            capture.read_until = captured
            yielded.append(captured)
            yield PacketBatch.of(after)

    stopped(capture).run(read(), FakeOutlet())
    assert yielded == [1, 2, late]


def test_a_feeder_that_is_behind_stops_nevertheless_and_logs_what_is_unread(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(feeder_module, "DRAIN_SECONDS", 0.3)
    began = time.monotonic()
    stopped(FakeCapture()).run(map(PacketBatch.of, repeat(packets())), FakeOutlet())
    assert 0.3 < time.monotonic() - began < 10
    assert last_event(capsys)["unread_packets"] == 1_000


def test_packets_of_several_link_layers_in_one_file_are_an_error_of_one_line() -> None:
    other = packets()[0]._replace(link_type=101)
    with pytest.raises(UserError, match="--save cannot mix link layers"):
        Feeder(Configuration(), run=1, save=io.BytesIO()).run(batches([packets()[0], other]), FakeOutlet())


def test_skipped_packets_and_what_is_not_kafka_are_on_the_metrics_page() -> None:
    synthetic = SyntheticConnection(CLIENT, SERVER)
    opened = synthetic.opened(1)
    hello = synthetic.sent(2, TO_BROKER, b"\x16\x03\x01" + bytes(200))
    unread = packets()[0]._replace(data=bytes(60))
    feeder = Feeder(Configuration(), run=1)
    feeder.run(batches([*opened, *hello, unread]), FakeOutlet())
    value = feeder.registry.get_sample_value
    assert value("kipwatch_capture_packets_total", {"fate": "tcp"}) == 4
    assert value("kipwatch_capture_packets_total", {"fate": "not-ip"}) == 1
    assert value("kipwatch_capture_opaque_connections_total") == 1
    assert value("kipwatch_capture_bytes_total", {"fate": "skipped-opaque"}) == 203


def test_evicted_connections_are_on_the_metrics_page() -> None:
    clients = (SocketAddress(CLIENT.address, port) for port in range(2**15))
    syns = [SyntheticConnection(client, SERVER).opened(1)[0] for client in clients]
    feeder = Feeder(Configuration(), run=1)
    feeder.run(batches(syns), FakeOutlet())
    most = MAX_CONNECTIONS
    value = feeder.registry.get_sample_value
    evicted = value("kipwatch_capture_evicted_connections_total", {"state": "half-open"})
    assert evicted is not None
    assert 2**15 - max_half_open(most) <= evicted < 2**15 - max_half_open(most) + closed_at_once(most)


def test_segments_that_contradict_others_are_on_the_metrics_page() -> None:
    synthetic = SyntheticConnection(CLIENT, SERVER)
    sent = synthetic.opened(1) + synthetic.reset(2, TO_BROKER)
    sent += synthetic.sent(3, TO_BROKER, prefixed(metadata(1)))
    feeder = Feeder(Configuration(), run=1)
    feeder.run(batches(sent), FakeOutlet())
    value = feeder.registry.get_sample_value
    assert value("kipwatch_capture_contradictions_total", {"kind": "close"}) == 1


def test_a_request_longer_than_brokers_accept_is_an_invalid_size() -> None:
    synthetic, outlet = SyntheticConnection(CLIENT, SERVER), FakeOutlet()
    configuration = Configuration(max_request_bytes=1024)
    sent = synthetic.opened(1) + synthetic.sent(2, TO_BROKER, prefixed(metadata(1)))
    sent += synthetic.sent(3, TO_BROKER, (1025).to_bytes(4) + metadata(2))
    Feeder(configuration, run=1).run(batches(sent), outlet)
    kinds = [record.kind for record in outlet.records]
    assert kinds == [Kind.OPENED, Kind.REQUEST, Kind.INVALID_SIZE, Kind.GAP]
    assert outlet.records[2].true_length == 1025


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
        # It is ready until librdkafka finds the broker unreachable. The records wait for longer.
        until(lambda: waiting_bytes(feeder) and status(exposition, "/readyz") == 503, PATIENCE, every=0.05)
        assert status(exposition, "/healthz") == 200
        stopping.set()
        thread.join(PATIENCE)
    assert "did not accept 2 records" in str(failures[0])


class SlowOutlet(FakeOutlet):
    """An outlet that takes long for a batch: 90 s of the feeder's clock. Meanwhile it calls a function."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object]) -> None:
        super().__init__()
        self._meanwhile, self._now = meanwhile, time.monotonic()
        clock = SimpleNamespace(monotonic=lambda: self._now, time_ns=time.time_ns)
        monkeypatch.setattr(feeder_module, "time", clock)

    def publish_batch(self, batch: FrameBatch) -> None:
        for _ in range(3):
            self._now += STUCK_AFTER / 2
            self._meanwhile()


def test_a_stuck_feeder_is_unhealthy_and_one_that_waits_for_kafka_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A restart because Kafka is unreachable would lose the waiting records."""
    feeder, healthy = Feeder(Configuration(), run=1), list[bool]()

    def look() -> None:
        healthy.append(feeder.is_healthy())

    def wait() -> None:
        look()
        feeder.waits()

    feeder.run(batches(packets()), SlowOutlet(monkeypatch, look))
    assert healthy[:3] == [True, False, False]
    healthy.clear()
    feeder.run(batches(packets()), SlowOutlet(monkeypatch, wait))
    assert len(healthy) > 3 and all(healthy)


def test_while_it_waits_for_kafka_the_metrics_page_is_updated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeder_module, "METRICS_INTERVAL", 0.0)
    capture, seen = FakeCapture(), list[float | None]()
    feeder = Feeder(Configuration(), run=1, capture=cast(InterfaceCapture, capture))

    def wait() -> None:
        capture.dropped += 1
        feeder.waits()
        seen.append(feeder.registry.get_sample_value("kipwatch_capture_dropped_packets_total"))

    feeder.run(batches(packets()), SlowOutlet(monkeypatch, wait))
    assert seen[:3] == [4, 5, 6]
