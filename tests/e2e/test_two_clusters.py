"""Two clusters and one query: findings, metrics and archive are of one cluster each, to the last finding.

At both, clients with the same addresses, client IDs and instance IDs connect to brokers at one address, at
the same time. What is captured at the first is fed once more as a third cluster, so that there nothing
differs but the name.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from decoders.schema.registry import default_schemas
from decoders.wire.segment import Packet
from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.ports import HOST, free_ports
from streaming.broker.topics import FindingsTopic, create_topics
from streaming.check.examination import Examination, examine
from streaming.demo.front import Front
from streaming.demo.offences import PLANTED, PlantedOffence, play
from streaming.demo.progress import scrape
from streaming.metrics.exposition import MetricsPage
from streaming.probe.client import InstanceClient
from streaming.record.relay import Relay
from streaming.settings.configuration import Configuration
from tests.e2e.archive_rows import rows_of
from tests.e2e.feeding import feed_capture
from tests.e2e.found import Likenesses, likenesses
from tests.e2e.pages import free_pages
from tests.e2e.quick_ticks import QuickChild
from tests.exchange import ID_A
from tests.streaming.captures import write_packets
from tests.waiting import until

pytestmark = [pytest.mark.jvm, pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(900)]

NAMES = (
    "instance ID changed",
    "instance ID missing",
    "client ID repeated",
    "empty member ID",
    "software name malformed",
    "half a broker named",
    "bytes left over",
    "instance ID shared",
    "member ID shared",
)
PLAYED = [planted for planted in PLANTED if planted.name in NAMES]
JUDGED = 400.0
SETTLE = 0.2
"""Seconds. None of these offences needs a response to be read."""


def test_what_is_found_counted_and_archived_is_of_one_cluster(tmp_path: Path) -> None:
    names, (page_at,), (port,) = Configuration(), free_pages(1), free_ports(1)
    with ExitStack() as stack:
        here, there = (stack.enter_context(EmbeddedBroker()) for _ in range(2))
        first = record(here, port, PLAYED)
        second = record(there, port, PLAYED[::2])
        earlier = second[0].captured_at - first[0].captured_at
        captures = {"here": first, "there": [moved(packet, -earlier) for packet in second], "copy": first}
        files = {name: write_packets(tmp_path / f"{name}.pcap", each) for name, each in captures.items()}
        expected = {name: examine(path, default_schemas(), [port]) for name, path in files.items()}
        kafka, archive = ["--bootstrap", here.internal], tmp_path / "archive"
        create_topics(here.internal, names.frames_topic, names.findings_topic)
        run = ["run", *kafka, "--metrics-address", page_at, "--archive", str(archive)]
        run += ["--checkpoint", str(tmp_path / "checkpoint")]
        query = stack.enter_context(QuickChild(run, tmp_path / "run.log"))
        for name, path in files.items():
            feed_capture(path, tmp_path / f"{name}.log", *kafka, "--ports", str(port), "--cluster", name)
        topic = stack.enter_context(closing(FindingsTopic(here.internal, names.findings_topic)))
        wanted = {name: likenesses(each.findings) for name, each in expected.items()}
        until(lambda: found_by(topic) == wanted, JUDGED, query)
        page = scrape(page_at)
        assert page is not None
        assert_counted_apart(page, expected, f"{HOST}:{port}")
        assert_archived_apart(archive, expected, {"here": here, "there": there, "copy": here})


def record(broker: EmbeddedBroker, port: int, offences: Sequence[PlantedOffence]) -> list[Packet]:
    """Let clients offend at a cluster, each from an address that one of the other cluster has, too."""
    packets: list[Packet] = []
    with (
        Front(default_schemas(), (HOST, broker.ports.watched)) as front,
        Relay(front.address, packets.extend, port=port) as relay,
    ):
        for number, planted in enumerate(offences, 1):
            client_id, host = planted.client_id, f"127.0.9.{number}"
            with InstanceClient(default_schemas(), relay.address, client_id, ID_A, host) as client:
                client.request("DescribeCluster", {}, version=1)
                play(planted, client, SETTLE)
        time.sleep(1)
    return packets


def moved(packet: Packet, nanoseconds: int) -> Packet:
    return packet._replace(captured_at=packet.captured_at + nanoseconds)


def found_by(topic: FindingsTopic) -> dict[str, Likenesses]:
    topic.poll(1.0)
    found: dict[str, Likenesses] = {}
    for finding in topic.findings.values():
        found.setdefault(finding.cluster, Counter())[finding.likeness()] += 1
    return found


def assert_counted_apart(page: MetricsPage, expected: dict[str, Examination], listener: str) -> None:
    """Assert that offences are counted for their cluster, rule by rule."""
    counted = page.by("kipwatch_findings_total", "cluster", "listener", "rule")
    wanted = Counter[tuple[str, ...]]()
    for name, examination in expected.items():
        for finding in examination.findings:
            wanted[name, listener, finding.rule] += finding.occurrences
    assert counted == wanted


def assert_archived_apart(
    archive: Path, expected: dict[str, Examination], brokers: dict[str, EmbeddedBroker]
) -> None:
    """Assert that each table has the rows of each cluster, and names that cluster's own broker."""
    rows = {table: rows_of(archive, table) for table in ("connections", "findings", "brokers", "usage")}
    ids = {name: {row["connection"] for row in of(rows["connections"], name)} for name in expected}
    assert {name: len(each) for name, each in ids.items()} == {
        name: examination.connections for name, examination in expected.items()
    }
    assert len(set().union(*ids.values())) == sum(map(len, ids.values()))
    for name, examination in expected.items():
        rules = {row["id"]: row["rule"] for row in of(rows["findings"], name)}
        assert Counter(rules.values()) == Counter(finding.rule for finding in examination.findings)
        (cluster_id,) = {row["cluster_id"] for row in of(rows["brokers"], name)} - {None}
        assert cluster_id == brokers[name].cluster_id
    requests = {name: sum(row["requests"] for row in of(rows["usage"], name)) for name in expected}
    assert requests["here"] == requests["copy"] > requests["there"] > 0


def of(rows: Sequence[dict[str, Any]], cluster: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["cluster"] == cluster]
