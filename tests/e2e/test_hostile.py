"""Hostile traffic stops neither feeder nor query, nor hides what ordinary clients do; memory is bounded.

A capture of ordinary clients with planted offences is fed, to see how long this machine takes. Then a capture
of thousands of hostile connections is fed, and while the query judges it, the ordinary clients again, as
another cluster. Broker, feeders and query are real. Identities settle sooner than they usually do.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Final, NamedTuple

import msgspec
import pytest

from expectations.judging.finding import Finding
from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.topics import FindingsTopic, create_topics
from streaming.check.examination import examine
from streaming.demo.progress import scrape
from streaming.demo.road import Child
from streaming.metrics.exposition import MetricsPage
from streaming.settings.configuration import configure
from streaming.settings.decisions import Decisions
from streaming.settings.release import load_schemas
from streaming.user_error import UserError
from tests.captures import planted
from tests.e2e.found import likenesses, of_one_connection
from tests.e2e.hostile_traffic import BROKER, hostile_packets
from tests.e2e.pages import free_pages
from tests.e2e.process_tree import resident_mebibytes
from tests.e2e.quick_ticks import QuickChild
from tests.streaming.captures import write_packets

pytestmark = [pytest.mark.jvm, pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(600)]

CONNECTIONS: Final = 4_000
STARTED, FOUND = 150.0, 240.0
WORKERS_MEBIBYTES: Final = 2_200
"""All of Spark's Python workers on two cores, pages that they share counted for each: 1,700 were measured."""
USUAL_DELAY: Final = 60.0
"""Seconds for rules on one connection, batches and the start of a feeder included, on an idle machine."""
BUSY: Final = 2
"""How many times as long as without hostile traffic it may take, where that is more than USUAL_DELAY."""
FEEDER_MEBIBYTES: Final = 1_024
"""Half of what the systemd unit allows."""
LONGEST_FINDING: Final = 64 * 1024
SOFTWARE_LIMIT: Final = 103
"""Names of client software among metrics, with `other`, `invalid` and `unknown`."""


class Judged(NamedTuple):
    """What came of the hostile run. Memory is in MiB, at its highest.

    `quiet` and `delay` are how long after the start of the ordinary feeder, in seconds, all offences were
    found that one connection shows by itself: without hostile traffic, and beside it.
    """

    ordinary: list[Finding]
    expected: list[Finding]
    longest: int
    page: MetricsPage
    workers: float
    feeder: float
    quiet: float
    delay: float


class Ordinary:
    """The ordinary clients of one cluster: fed from a time on, and what was found of them since."""

    def __init__(self, kafka: list[str], cluster: str, expected: list[Finding]) -> None:
        self.cluster, self.expected = cluster, expected
        port = expected[0].broker.rpartition(":")[2]
        self.feed = ["feed", *kafka, "--cluster", cluster, "--ports", port, str(planted.CAPTURE)]
        self.begun, self.delay = time.monotonic(), FOUND

    def found(self, topic: FindingsTopic) -> list[Finding]:
        """Return what was found, and note when the last of what one connection shows was."""
        found = [finding for finding in topic.findings.values() if finding.cluster == self.cluster]
        if len(of_one_connection(found)) >= len(of_one_connection(self.expected)):
            self.delay = min(self.delay, time.monotonic() - self.begun)
        return found


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    folder = tmp_path_factory.mktemp("hostile")
    capture = write_packets(folder / "hostile.pcap", hostile_packets(CONNECTIONS))
    configuration = configure(Namespace(config=None))
    expected = examine(planted.CAPTURE, load_schemas(""), terms=Decisions(configuration).terms).findings
    (page_at,) = free_pages(1)
    with EmbeddedBroker() as broker:
        kafka = ["--bootstrap", broker.internal]
        create_topics(broker.internal, configuration.frames_topic, configuration.findings_topic)
        run = ["run", *kafka, "--metrics-address", page_at, "--checkpoint", str(folder / "checkpoint")]
        hostile = ["feed", *kafka, "--ports", str(BROKER.port), str(capture)]
        with (
            QuickChild(run, folder / "run.log") as query,
            closing(FindingsTopic(broker.internal, configuration.findings_topic)) as topic,
        ):
            query.wait_for('"query": "started"', STARTED)
            before = Ordinary(kafka, "before", expected)
            with Child(before.feed, folder / "before.log"):
                _wait_until(lambda: bool(before.found(topic)) and before.delay < FOUND, topic, query)
            with Child(hostile, folder / "hostile.log") as attacked:
                feeder = _highest_while_running(attacked)
                assert attacked.wait(FOUND) == 0, attacked.last_line()
            beside, workers = Ordinary(kafka, "beside", expected), [0.0]
            with Child(beside.feed, folder / "beside.log") as feeding:
                feeding.wait(FOUND)

            def is_all_found() -> bool:
                workers.append(resident_mebibytes(query.process_id).get("workers", 0.0))
                return len(beside.found(topic)) >= len(expected)

            _wait_until(is_all_found, topic, query)
            page = scrape(page_at)
            longest = max(len(msgspec.json.encode(finding)) for finding in topic.findings.values())
            ordinary = beside.found(topic)
    assert page is not None
    print(f"hostile: workers {max(workers):.0f} MiB, feeder {feeder:.0f} MiB")
    print(f"ordinary offences after {before.delay:.1f} s without it, {beside.delay:.1f} s beside it")
    yield Judged(ordinary, expected, longest, page, max(workers), feeder, before.delay, beside.delay)


def _wait_until(is_over: Callable[[], bool], topic: FindingsTopic, query: Child) -> None:
    """Read findings until something is so, at most FOUND seconds."""
    ends = time.monotonic() + FOUND
    while not is_over() and time.monotonic() < ends:
        topic.poll(1.0)
        query.check_running()


def _highest_while_running(feeder: Child) -> float:
    highest, deadline = 0.0, time.monotonic() + FOUND
    with suppress(UserError):
        while time.monotonic() < deadline:
            feeder.check_running()
            highest = max(highest, sum(resident_mebibytes(feeder.process_id).values()))
            time.sleep(0.2)
    return highest


def test_ordinary_offences_are_found(judged: Judged) -> None:
    assert likenesses(judged.ordinary) == likenesses(judged.expected)


def test_ordinary_offences_are_found_with_the_usual_delay(judged: Judged) -> None:
    assert judged.delay < max(USUAL_DELAY, BUSY * judged.quiet)


def test_hostile_offences_are_found_and_none_is_refused(judged: Judged) -> None:
    assert judged.page.total("kipwatch_findings_total") > 2 * len(judged.expected)
    assert judged.page.total("kipwatch_findings_refused_total") == 0


def test_findings_are_bounded(judged: Judged) -> None:
    assert judged.longest < LONGEST_FINDING


def test_labels_are_bounded(judged: Judged) -> None:
    names = judged.page.by("kipwatch_findings_total", "client_software_name")
    assert len(names) <= SOFTWARE_LIMIT


def test_memory_is_bounded(judged: Judged) -> None:
    assert judged.workers < WORKERS_MEBIBYTES
    assert judged.feeder < FEEDER_MEBIBYTES
