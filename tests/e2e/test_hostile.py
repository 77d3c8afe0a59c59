"""Hostile traffic neither stops the query nor hides what ordinary clients do, and memory stays bounded.

A capture of thousands of hostile connections is fed; while the query judges it, a capture of ordinary clients
with planted offences is fed by a second feeder. Broker, feeders and query are real.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec
import pytest

from expectations.judging.finding import Finding
from expectations.rules.base.identity_rule import IdentityRule
from expectations.rules.catalogue import rule_named
from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.findings_topic import FindingsTopic
from streaming.broker.ports import free_ports
from streaming.broker.topics import create_topics
from streaming.check.examination import examine
from streaming.demo.child import Child
from streaming.demo.page import MetricsPage, scrape
from streaming.settings.configuration import configure
from streaming.settings.decisions import Decisions
from streaming.settings.release import load_schemas
from streaming.user_error import UserError
from tests.captures import planted
from tests.e2e.hostile_traffic import BROKER, hostile_packets
from tests.e2e.process_tree import resident_mebibytes
from tests.streaming.captures import write_packets

pytestmark = [pytest.mark.jvm, pytest.mark.e2e, pytest.mark.timeout(600)]

CONNECTIONS: Final = 4_000
STARTED, FOUND = 150.0, 240.0
WORKERS_MEBIBYTES: Final = 2_200
"""All of Spark's Python workers on two cores, pages that they share counted for each: 1,700 were measured."""
USUAL_DELAY: Final = 60.0
"""Seconds for rules on one connection, batches and the start of a feeder included."""
FEEDER_MEBIBYTES: Final = 1_024
"""Half of what the systemd unit allows."""
LONGEST_FINDING: Final = 64 * 1024
SOFTWARE_LIMIT: Final = 103
"""Names of client software among metrics, with `other`, `invalid` and `unknown`."""


class Judged(NamedTuple):
    """What came of the hostile run. Memory is in MiB, at its highest.

    `delay` is how long after the start of the ordinary feeder, in seconds, all offences were found that one
    connection shows by itself.
    """

    ordinary: list[Finding]
    expected: list[Finding]
    longest: int
    page: MetricsPage
    workers: float
    feeder: float
    delay: float


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    folder = tmp_path_factory.mktemp("hostile")
    capture = write_packets(folder / "hostile.pcap", hostile_packets(CONNECTIONS))
    configuration = configure(Namespace(config=None))
    expected = examine(planted.CAPTURE, load_schemas(""), terms=Decisions(configuration).terms).findings
    ordinary_broker = expected[0].broker
    (port,) = free_ports(1)
    page_at = f"127.0.0.1:{port}"
    with EmbeddedBroker() as broker:
        kafka = ["--bootstrap", broker.internal]
        create_topics(broker.internal, configuration.frames_topic, configuration.findings_topic)
        run = ["run", *kafka, "--metrics-address", page_at, "--checkpoint", str(folder / "checkpoint")]
        hostile = ["feed", *kafka, "--ports", str(BROKER.port), str(capture)]
        ordinary = ["feed", *kafka, "--ports", ordinary_broker.rpartition(":")[2], str(planted.CAPTURE)]
        with Child(run, folder / "run.log") as query:
            query.wait_for('"query": "started"', STARTED)
            topic = FindingsTopic(broker.internal, configuration.findings_topic)
            with Child(hostile, folder / "hostile.log") as attacker:
                feeder = _highest_while_running(attacker)
            begun = time.monotonic()
            with Child(ordinary, folder / "ordinary.log") as feeding:
                feeding.wait(FOUND)
            workers, delay = 0.0, FOUND
            direct = len(_direct(expected))
            while time.monotonic() < begun + FOUND:
                topic.poll(1.0)
                query.check_running()
                workers = max(workers, resident_mebibytes(query.process_id).get("workers", 0.0))
                found = _of(topic, ordinary_broker)
                if len(_direct(found)) >= direct:
                    delay = min(delay, time.monotonic() - begun)
                if len(found) >= len(expected):
                    break
            page = scrape(page_at)
            longest = max(len(msgspec.json.encode(finding)) for finding in topic.findings.values())
            topic.close()
    assert page is not None
    print(f"hostile: workers {workers:.0f} MiB, feeder {feeder:.0f} MiB, ordinary offences {delay:.1f} s")
    yield Judged(_of(topic, ordinary_broker), expected, longest, page, workers, feeder, delay)


def _highest_while_running(feeder: Child) -> float:
    highest, deadline = 0.0, time.monotonic() + FOUND
    with suppress(UserError):
        while time.monotonic() < deadline:
            feeder.check_running()
            highest = max(highest, sum(resident_mebibytes(feeder.process_id).values()))
            time.sleep(0.2)
    return highest


def _direct(findings: list[Finding]) -> list[Finding]:
    """Return the findings that one connection shows; those of shared identities settle later."""
    return [finding for finding in findings if not isinstance(rule_named(finding.rule), IdentityRule)]


def _of(topic: FindingsTopic, broker: str) -> list[Finding]:
    return [finding for finding in topic.findings.values() if finding.broker == broker]


def test_ordinary_offences_are_found(judged: Judged) -> None:
    found = Counter(finding.likeness() for finding in judged.ordinary)
    assert found == Counter(finding.likeness() for finding in judged.expected)


def test_ordinary_offences_are_found_with_the_usual_delay(judged: Judged) -> None:
    assert judged.delay < USUAL_DELAY


def test_hostile_offences_are_found_and_none_is_refused(judged: Judged) -> None:
    assert judged.page.total("kipwatch_findings_total") > len(judged.expected)
    assert judged.page.total("kipwatch_findings_refused_total") == 0


def test_findings_are_bounded(judged: Judged) -> None:
    assert judged.longest < LONGEST_FINDING


def test_labels_are_bounded(judged: Judged) -> None:
    names = judged.page.by("kipwatch_findings_total", "client_software_name")
    assert len(names) <= SOFTWARE_LIMIT


def test_memory_is_bounded(judged: Judged) -> None:
    assert judged.workers < WORKERS_MEBIBYTES
    assert judged.feeder < FEEDER_MEBIBYTES
