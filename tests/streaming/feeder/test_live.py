"""The feeder with a real broker and real clients, compared with the broker's own log of requests."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from decoders.frame.record import Flag, Kind, Record
from streaming.audit.frames_topic import latest_slice
from streaming.broker import child_guard
from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.topics import create_topics
from streaming.demo.workload import run_workload
from tests.decoders.wire.conversation import metadata, metadata_response, prefixed
from tests.e2e.process_tree import frozen, jvms
from tests.streaming.broker.request_log import read_request_log
from tests.streaming.feeder.live import (
    FRAMES,
    PATIENCE,
    LiveFeeder,
    assert_same_requests,
    captures,
    logged,
    requests_in,
)
from tests.waiting import until

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(240)]

OWN = "kipwatch-feeder"
EVERYTHING = 10_000_000


STANDSTILL = 1.0
"""Seconds of each pause of Kafka."""
SMALLEST_BLOCK, LARGEST_BLOCK = 100, 1_000_000
"""Bytes: no block is as small, and none that a feeder writes is as large."""


class RestartableBroker(EmbeddedBroker):
    """A broker that can be stopped and started again with its data."""

    @property
    def process_id(self) -> int:
        """The guard of its JVM."""
        return self._process.pid

    def stop(self) -> None:
        child_guard.stop(self._process)

    def start(self) -> None:
        self._await_response(self._start())

    def _start(self) -> subprocess.Popen[bytes]:
        self._process = super()._start()
        return self._process


@pytest.fixture
def broker() -> Iterator[RestartableBroker]:
    with RestartableBroker() as running:
        create_topics(running.internal, FRAMES, "kipwatch.findings")
        yield running
        running.stop()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "feeder.log"


def watched_port(broker: EmbeddedBroker) -> int:
    return broker.ports.watched


def published(broker: EmbeddedBroker) -> list[Record]:
    return [record for *_, record in latest_slice(broker.internal, FRAMES, EVERYTHING).frames]


def play(broker: EmbeddedBroker) -> None:
    run_workload(broker.watched, lambda _: None, threading.Event())


def press(bootstrap: str, stop: threading.Event) -> None:
    """Send requests as fast as responses arrive, from several clients at once, until told to stop."""

    def list_topics() -> None:
        admin = AdminClient({"bootstrap.servers": bootstrap, "client.id": "asking", "log_level": 2})
        while not stop.is_set():
            admin.list_topics(timeout=10)

    def produce(number: int) -> None:
        settings = {"bootstrap.servers": bootstrap, "client.id": f"producing-{number}", "log_level": 2}
        producer = Producer({**settings, "linger.ms": 0, "batch.num.messages": 1})
        while not stop.is_set():
            producer.produce("kipwatch-demo", value=b"x" * 100)
            producer.poll(0)
            if len(producer) > 1000:
                producer.poll(0.01)
        assert producer.flush(60) == 0

    threads = [
        threading.Thread(target=list_topics),
        *(threading.Thread(target=produce, args=(n,)) for n in range(2)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def press_for(bootstrap: str, seconds: float) -> None:
    """Send requests from several clients for some seconds."""
    stop = threading.Event()
    timer = threading.Timer(seconds, stop.set)
    timer.start()
    press(bootstrap, stop)


def converse(client: socket.socket, server: socket.socket, numbers: range) -> int:
    """Send a request and a response for each number. Returns their total bytes."""
    sent = 0
    for number in numbers:
        for source, destination, frame in (
            (client, server, metadata(number)),
            (server, client, metadata_response(number)),
        ):
            source.sendall(prefixed(frame))
            received = destination.recv(65536)
            assert received == prefixed(frame)
            sent += len(received)
    return sent


@captures
def test_ordinary_load_is_published_request_by_request(broker: RestartableBroker, log: Path) -> None:
    with LiveFeeder(log, [watched_port(broker)], broker.internal) as feeder:
        play(broker)
        stopped = feeder.stop()
    records = published(broker)
    assert_same_requests(records, read_request_log(broker.request_log))
    assert requests_in(records).total() > 50
    assert stopped["dropped_packets"] == 0
    assert stopped["records"] == {"delivered": len(records), "refused": 0, "shed": 0}
    assert stopped["bytes"]["lost"] == 0


@captures
def test_the_feeder_does_not_publish_its_own_traffic(broker: RestartableBroker, log: Path) -> None:
    """Also not if it publishes to the listener that it watches."""
    with LiveFeeder(log, [watched_port(broker)], broker.watched) as feeder:
        play(broker)
        stopped = feeder.stop()
    lines = list(read_request_log(broker.request_log))
    assert any(line.client_id == OWN for line in lines)
    assert_same_requests(published(broker), lines, but=OWN)
    assert all(client != OWN for _, _, _, client in requests_in(published(broker)))
    assert stopped["bytes"]["skipped-own"] > 0


@captures
def test_the_feeder_outlives_its_broker(broker: RestartableBroker, log: Path) -> None:
    with LiveFeeder(log, [watched_port(broker)], broker.internal, "--feeder", "patient") as feeder:
        play(broker)
        broker.stop()
        feeder.wait_for("kafka-trouble")
        broker.start()
        press_for(broker.watched, 1)
        feeder.wait_for("delivering")
        stopped = feeder.stop()
    records = published(broker)
    # A broker that is stopped does not log all of its responses.
    assert logged(read_request_log(broker.request_log)) - requests_in(records) == Counter()
    assert stopped["records"]["delivered"] == len(records)
    assert stopped["records"]["shed"] == stopped["records"]["refused"] == stopped["left"] == 0


@captures
@pytest.mark.long
def test_a_killed_feeder_publishes_nothing_twice_and_open_connections_are_mid_stream(
    broker: RestartableBroker, log: Path
) -> None:
    ports, stop = [watched_port(broker)], threading.Event()
    pressing = threading.Thread(target=press, args=(broker.watched, stop))
    play(broker)
    killed = LiveFeeder(log, ports, broker.internal)
    killed.wait_for("ready")
    pressing.start()
    time.sleep(4)
    killed.kill()
    with LiveFeeder(log.with_name("second.log"), ports, broker.internal) as feeder:
        time.sleep(1)
        stop.set()
        pressing.join()
        feeder.stop()
    records = published(broker)
    places = Counter((record.connection, record.run, record.sequence) for record in records)
    assert set(places.values()) == {1}
    requests = Counter((record.client, record.frame[:8]) for record in records if record.kind is Kind.REQUEST)
    assert set(requests.values()) == {1}
    first, second = sorted({record.run for record in records})
    of_first = {record.client for record in records if record.run == first}
    survivors = [
        record
        for record in records
        if record.run == second and record.kind is Kind.OPENED and record.client in of_first
    ]
    assert survivors
    assert all(record.flags is Flag.MID_STREAM for record in survivors)
    assert {record.connection for record in records if record.run == first}.isdisjoint(
        record.connection for record in records if record.run == second
    )


@captures
@pytest.mark.long
def test_while_kafka_is_unreachable_the_feeder_sheds_and_publishes_gaps(
    broker: RestartableBroker, log: Path
) -> None:
    """Every byte of a watched conversation is in a frame of the topic or in a gap of it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        flags = ["--queue-mebibytes", "1"]
        with (
            LiveFeeder(log, [listener.getsockname()[1]], broker.internal, *flags) as feeder,
            closing(socket.create_connection(listener.getsockname(), timeout=10)) as client,
            closing(listener.accept()[0]) as server,
        ):
            sent = converse(client, server, range(10))
            broker.stop()
            # Enough to fill the queue, whose blocks are compressed.
            count = 10
            while not feeder.logged("shedding"):
                sent += converse(client, server, range(count, count + 1000))
                count += 1000
            broker.start()
            feeder.wait_for("recovered")
            sent += converse(client, server, range(count, count + 10))
            stopped = feeder.stop()
    records, frames = assert_whole(broker, sent)
    assert [record.kind for record in records].count(Kind.GAP) == 2
    assert stopped["records"]["shed"] == 2 * (count + 10) - len(frames)
    assert stopped["dropped_packets"] == stopped["left"] == 0


@captures
@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_slow_kafka_gets_every_frame(broker: RestartableBroker, log: Path) -> None:
    """Kafka pauses again and again during the conversation, and nothing is shed or refused."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        LiveFeeder(log, [listener.getsockname()[1]], broker.internal) as feeder,
        closing(socket.create_connection(listener.getsockname(), timeout=10)) as client,
        closing(listener.accept()[0]) as server,
    ):
        sent = 0
        for begin in range(0, 5_000, 1_000):
            with frozen(jvms(broker.process_id)):
                sent += converse(client, server, range(begin, begin + 1_000))
                time.sleep(STANDSTILL)
            await_records(broker, 2 * (begin + 1_000))
        stopped = feeder.stop()
    _, frames = assert_whole(broker, sent)
    assert len(frames) == 2 * 5_000
    assert stopped["records"]["shed"] == stopped["records"]["refused"] == 0
    assert stopped["dropped_packets"] == stopped["left"] == 0


@captures
@pytest.mark.long
@pytest.mark.timeout(900)
def test_what_a_full_kafka_refuses_is_counted_to_the_frame_and_becomes_gaps(
    broker: RestartableBroker, log: Path
) -> None:
    """The topic refuses blocks for a while. Then a gap in each direction accounts for them."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        LiveFeeder(log, [listener.getsockname()[1]], broker.internal) as feeder,
        closing(socket.create_connection(listener.getsockname(), timeout=10)) as client,
        closing(listener.accept()[0]) as server,
    ):
        sent, count = converse(client, server, range(10)), 10
        await_records(broker, 2 * count)
        limit_blocks(broker, SMALLEST_BLOCK)
        while not feeder.logged("kafka-trouble"):
            sent, count = sent + converse(client, server, range(count, count + 100)), count + 100
        limit_blocks(broker, LARGEST_BLOCK)
        while len({record.direction for record in published(broker) if record.kind is Kind.GAP}) < 2:
            sent, count = sent + converse(client, server, range(count, count + 10)), count + 10
        # Once a gap is in the topic, the fate of all blocks before it is known.
        sent, count = sent + converse(client, server, range(count, count + 10)), count + 10
        stopped = feeder.stop()
    _, frames = assert_whole(broker, sent)
    fates = stopped["records"]
    assert fates["refused"] > 0
    assert fates["delivered"] == len(published(broker))
    # Beside frames, heartbeats and gaps were refused, too.
    assert fates["shed"] + fates["refused"] >= 2 * count - len(frames)
    assert stopped["dropped_packets"] == stopped["left"] == 0


def assert_whole(broker: EmbeddedBroker, sent: int) -> tuple[list[Record], list[Record]]:
    """Assert that every sent byte is in a frame of the topic or in a gap. Returns all records, and frames."""
    records = [record for record in published(broker) if record.kind is not Kind.HEARTBEAT]
    assert min(records, key=lambda record: record.sequence).kind is Kind.OPENED
    gaps = sum(record.true_length for record in records if record.kind is Kind.GAP)
    frames = [record for record in records if record.kind in (Kind.REQUEST, Kind.RESPONSE)]
    assert sum(record.true_length + 4 for record in frames) + gaps == sent
    return records, frames


def await_records(broker: EmbeddedBroker, count: int) -> None:
    """Wait until the topic has more than a number of records."""
    until(lambda: len(published(broker)) > count, PATIENCE)


def limit_blocks(broker: EmbeddedBroker, size: int) -> None:
    """Let the topic take records up to a size."""
    change = ConfigEntry("max.message.bytes", str(size), incremental_operation=AlterConfigOpType.SET)
    topic = ConfigResource(ConfigResource.Type.TOPIC, FRAMES, incremental_configs=[change])
    admin = AdminClient({"bootstrap.servers": broker.internal})
    (answer,) = admin.incremental_alter_configs([topic]).values()
    answer.result()


@captures
@pytest.mark.parametrize("seconds", [3, pytest.param(60, marks=[pytest.mark.long, pytest.mark.timeout(900)])])
def test_the_highest_rate_is_published_or_its_drops_are_counted(
    broker: RestartableBroker, log: Path, seconds: int
) -> None:
    flags = ["--ring-mebibytes", "1024"]
    with LiveFeeder(log, [watched_port(broker)], broker.internal, *flags) as feeder:
        play(broker)
        press_for(broker.watched, seconds)
        stopped = feeder.stop()
    records, lines = published(broker), list(read_request_log(broker.request_log))
    print(stopped, f"{len(lines)} requests in the broker's log")
    if stopped["dropped_packets"]:
        assert any(record.kind is Kind.GAP for record in records)
    else:
        assert_same_requests(records, lines)
