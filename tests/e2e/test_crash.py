"""Whatever is killed, and whenever: the findings are those of an undisturbed run, also over TLS."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import msgspec
import pytest

from decoders.frame.record import Endpoint
from decoders.schema.registry import default_schemas
from decoders.wire.segment import Packet
from expectations.judging.finding import Finding
from streaming.broker.topics import FindingsTopic, create_topics
from streaming.check.examination import examine
from streaming.demo.progress import scrape
from streaming.demo.road import Child
from streaming.settings.confidential import open_private
from tests.decoders.tls.writer import SUITES, TlsWriter
from tests.e2e.found import likenesses
from tests.e2e.pages import free_pages
from tests.e2e.process_tree import children, send_signal
from tests.e2e.restarting_broker import RestartingBroker
from tests.exchange import Exchange
from tests.streaming.captures import conforming, packets_of, violating, write_packets

pytestmark = [pytest.mark.jvm, pytest.mark.slow, pytest.mark.e2e]

CONNECTIONS = 600
KILLS = int(os.environ.get("KIPWATCH_KILLS", "200"))
"""How often the long test kills."""
FRAMES, FINDINGS = "kipwatch.frames", "kipwatch.findings"
STARTED = 120.0
DRAINED = 240.0
SETTLE_SECONDS = 4.0
"""Time in which no further finding may arrive."""


@dataclass(frozen=True)
class Source:
    """A capture, and the key logs with which it can be read."""

    capture: Path
    key_logs: tuple[Path, ...] = ()

    def findings(self) -> list[Finding]:
        """The findings of an undisturbed run."""
        return examine(self.capture, default_schemas(), key_logs=self.key_logs).findings


class Crashing:
    """Broker, query and feeder, each of which can be killed and restarted."""

    def __init__(self, folder: Path, source: Source, broker: RestartingBroker) -> None:
        self._folder, self._broker = folder, broker
        application, feeder = free_pages(2)
        kafka = ["--bootstrap", broker.internal, "--frames-topic", FRAMES]
        self._run = ["run", *kafka, "--metrics-address", application, "--buckets", "64"]
        self._run += ["--checkpoint", str(folder / "checkpoint"), "--frames-per-batch", "2000"]
        self._feed = ["feed", str(source.capture), *kafka, "--feeder-metrics-address", feeder]
        self._feed += [flag for path in source.key_logs for flag in ("--tls-keylog", str(path))]
        self._page_at, self._frames, self._starts = application, 0.0, 0
        create_topics(broker.internal, FRAMES, FINDINGS)
        self.query = self._start(self._run)
        self.query.wait_for('"query": "started"', STARTED)
        self.feeder = self._start(self._feed)

    def kill(self, victim: str) -> None:
        """Kill one of the three and restart it; a feeder that has ended by itself is restarted, too."""
        match victim:
            case "driver":
                kill(self.query)
                self.query = self._start(self._run)
                self.query.wait_for('"query": "started"', STARTED)
                self._frames = 0.0
            case "feeder":
                kill(self.feeder)
                self.feeder = self._start(self._feed)
            case "broker":
                self._broker.killed()

    def check(self) -> None:
        """The query runs, and its counters never decrease except after its restart."""
        self.query.check_running()
        page = scrape(self._page_at)
        frames = page.total("kipwatch_frames_total") if page else self._frames
        assert frames >= self._frames
        self._frames = frames

    def finish(self) -> None:
        """Run a feeder until the end of the source."""
        self.feeder.stop()
        self.feeder = self._start(self._feed)
        self.feeder.wait(DRAINED)

    def close(self) -> None:
        self.feeder.stop()
        self.query.stop()

    def _start(self, command: list[str]) -> Child:
        self._starts += 1
        return Child(command, self._folder / f"{command[0]}-{self._starts}.log")


def kill(command: Child) -> None:
    """Kill a command with SIGKILL, and wait until its guard has ended."""
    send_signal(children(command.process_id), signal.SIGKILL)
    command.wait(30)


def connections() -> Iterator[Exchange]:
    """Many simultaneous connections, a third of which break two rules each."""
    for number in range(CONNECTIONS):
        exchange = conforming() if number % 3 else violating()
        client = Endpoint(f"10.1.{number // 250}.{number % 250 + 1}:40000")
        exchange.records = [
            msgspec.structs.replace(
                record, client=client, captured_at=record.captured_at + number * 1_000_000
            )
            for record in exchange.records
        ]
        yield exchange


def write(path: Path, packets: Iterable[Packet]) -> Path:
    return write_packets(path, sorted(packets, key=lambda packet: packet.captured_at))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Source:
    packets = [packet for exchange in connections() for packet in packets_of(exchange)]
    return Source(write(tmp_path_factory.mktemp("source") / "many.pcap", packets))


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Source:
    """The same connections over TLS 1.2 and 1.3, each with secrets of its own."""
    folder = tmp_path_factory.mktemp("encrypted")
    writers = [TlsWriter(*SUITES[number % len(SUITES)], seed=number) for number in range(CONNECTIONS)]
    key_log = folder / "many.keys"
    with open_private(key_log) as file:
        file.write("".join(writer.key_log for writer in writers).encode())
    both = zip(connections(), writers, strict=True)
    packets = [packet for exchange, writer in both for packet in packets_of(exchange, writer)]
    return Source(write(folder / "many.pcap", packets), (key_log,))


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(3, marks=pytest.mark.timeout(900)),
        pytest.param(KILLS, marks=[pytest.mark.long, pytest.mark.timeout(4 * 3600)], id="many"),
    ],
)
def test_whatever_is_killed_the_findings_are_those_of_an_undisturbed_run(
    kills: int, plain: Source, tmp_path: Path
) -> None:
    assert_unmoved(kills, plain, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_over_tls_too(plain: Source, encrypted: Source, tmp_path: Path) -> None:
    """The findings of an undisturbed run are those of plaintext."""
    assert likenesses(plain.findings()) == likenesses(encrypted.findings())
    assert not Source(encrypted.capture).findings()
    assert_unmoved(5, encrypted, tmp_path)


def assert_unmoved(kills: int, source: Source, folder: Path) -> None:
    """Kill driver, feeder and broker in turn, so many in all, and compare the findings."""
    expected = {finding.id for finding in source.findings()}
    assert len(expected) >= CONNECTIONS // 3
    random = Random(kills)
    victims = [("driver", "feeder", "broker")[number % 3] for number in range(kills)]
    random.shuffle(victims)
    with RestartingBroker() as broker:
        crashing = Crashing(folder, source, broker)
        try:
            for victim in victims:
                time.sleep(random.uniform(0.0, 3.0))
                crashing.check()
                crashing.kill(victim)
            crashing.finish()
            assert found(broker.internal, expected, crashing) == expected
        finally:
            crashing.close()


def found(bootstrap: str, expected: set[str], crashing: Crashing) -> set[str]:
    """The IDs in the topic, some seconds after all have arrived, or at the deadline."""
    topic, deadline = FindingsTopic(bootstrap, FINDINGS), time.monotonic() + DRAINED
    try:
        while not expected <= topic.findings.keys() and time.monotonic() < deadline:
            topic.poll(1.0)
            crashing.check()
        topic.poll(SETTLE_SECONDS)
        return set(topic.findings)
    finally:
        topic.close()
