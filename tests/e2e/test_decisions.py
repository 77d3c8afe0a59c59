"""A running query applies the decisions of users, with the same findings as `kipwatch check`.

On SIGHUP it takes over changed ones, and refuses invalid ones. Records that it cannot read are counted and
kept in quarantine, and it removes what a killed query has left in its checkpoint.
"""

from __future__ import annotations

import os
import signal
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from expectations.judging.finding import Finding
from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.topics import FindingsTopic, create_topics
from streaming.check.examination import examine
from streaming.demo.progress import scrape
from streaming.demo.road import Child
from streaming.metrics.exposition import MetricsPage
from streaming.settings.configuration import Configuration, configure
from streaming.settings.decisions import Decisions
from streaming.settings.release import load_schemas
from tests.captures import planted
from tests.e2e.feeding import feed_capture
from tests.e2e.pages import free_pages
from tests.e2e.process_tree import children
from tests.e2e.quick_ticks import QuickChild
from tests.streaming.captures import violating, write_capture
from tests.waiting import until

pytestmark = [pytest.mark.jvm, pytest.mark.slow, pytest.mark.e2e, pytest.mark.timeout(600)]

OFF, LOWERED, SUPPRESSED = (
    "kip1082/member-id-not-uuid",
    "kip1313/client-id-repeated",
    "kip511/software-version-malformed",
)
DECISIONS = f"""
disable = ["{OFF}"]
spec = ["kip1313=text"]

[levels]
"{LOWERED}" = "information"

[[suppress]]
rule = "{SUPPRESSED}"
reason = "renamed in June"
until = 2999-01-01
"""
RELOADED = "kip511/software-name-malformed"
INVALID = 'disable = ["kip511/nonsense"]'
CHANGED = f"""
trigger_seconds = 2
levels = {{"{RELOADED}" = "information"}}

[[suppress]]
rule = "kip511/*"
client = "10.0.0.0/8"
reason = "renamed in July"
until = 2999-01-01
"""
INVALID_RECORDS = (b"", b"poison")
PATIENCE = 150.0


class Feeding(NamedTuple):
    """Feeds captures of one connection, and waits for what is found of it."""

    folder: Path
    kafka: list[str]
    topic: FindingsTopic

    def finding(self, software: str) -> Finding:
        """Feed a connection of a malformed software name, and return its finding of RELOADED."""
        path = write_capture(self.folder / f"{software}.pcap", violating(software))
        feed_capture(path, self.folder / f"{software}.log", *self.kafka, "--ports", "9092")
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            self.topic.poll(1.0)
            for finding in self.topic.findings.values():
                if finding.rule == RELOADED and finding.client_software_name == software:
                    return finding
        raise AssertionError(f"nothing was found of {software}")


class JudgedTwice(NamedTuple):
    """Findings of the query, its metrics page, and findings of `check` on the same capture.

    The query runs on, by the decisions in `path`; `feeding` feeds it more. `orphan` are offsets that were
    written and not yet renamed, when an earlier query was killed in its first batch.
    """

    findings: list[Finding]
    page: MetricsPage
    checked: list[Finding]
    query: Child
    path: Path
    feeding: Feeding
    orphan: Path


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JudgedTwice]:
    folder = tmp_path_factory.mktemp("decisions")
    path = folder / "kipwatch.toml"
    path.write_text(DECISIONS)
    (page_at,) = free_pages(1)
    configuration = configured(path)
    checked = examine(planted.CAPTURE, load_schemas(""), terms=Decisions(configuration).terms).findings
    with EmbeddedBroker() as broker:
        kafka = ["--bootstrap", broker.internal]
        create_topics(broker.internal, configuration.frames_topic, configuration.findings_topic)
        ports = ["--ports", checked[0].broker.rpartition(":")[2]]
        feed_capture(planted.CAPTURE, folder / "feed.log", *kafka, *ports)
        publish_invalid(broker.internal, configuration.frames_topic)
        command = ["run", *kafka, "--config", str(path), "--metrics-address", page_at, "--buckets", "4"]
        orphan = begin_checkpoint(folder / "checkpoint")
        with QuickChild([*command, "--checkpoint", str(folder / "checkpoint")], folder / "run.log") as query:
            topic = FindingsTopic(broker.internal, configuration.findings_topic)
            query.wait_for('"frames": ', PATIENCE)
            await_findings(topic, len(checked))
            page, findings = scrape(page_at), list(topic.findings.values())
            assert page is not None
            feeding = Feeding(folder, kafka, topic)
            yield JudgedTwice(findings, page, checked, query, path, feeding, orphan)
            topic.close()


def begin_checkpoint(checkpoint: Path) -> Path:
    """Make a checkpoint as a query leaves it that is killed in its first batch, and return its offsets."""
    orphan = checkpoint / "offsets" / ".0.3f0c3ad2-9d5e-4c1b-a1f9-6a3b1b0f6e55.tmp"
    orphan.parent.mkdir(parents=True)
    orphan.write_text("v1")
    (checkpoint / "kipwatch-keys-dealt").touch()
    return orphan


def publish_invalid(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in INVALID_RECORDS:
        producer.produce(topic, value, b"key")
    assert producer.flush(30) == 0


def reload(query: Child, config: Path, text: str) -> None:
    """Change the configuration and send SIGHUP to the query, whose guard is its parent."""
    config.write_text(text)
    (process,) = children(query.process_id)
    os.kill(process, signal.SIGHUP)


def configured(path: Path) -> Configuration:
    return configure(Namespace(config=path))


def await_findings(topic: FindingsTopic, count: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while len(topic.findings) < count and time.monotonic() < deadline:
        topic.poll(1.0)


def test_topic_and_check_have_the_same_findings(judged: JudgedTwice) -> None:
    assert Counter(map(essentials, judged.findings)) == Counter(map(essentials, judged.checked))


def test_each_decision_applies(judged: JudgedTwice) -> None:
    rules = {finding.rule: finding for finding in judged.findings}
    assert OFF not in rules
    assert rules[LOWERED].level == "information"
    assert {finding.spec for finding in judged.findings if finding.kip == "KIP-1313"} == {"text"}
    suppressed = rules[SUPPRESSED].suppressed
    assert suppressed and (suppressed.reason, suppressed.until) == ("renamed in June", "2999-01-01")


def test_suppressed_findings_are_counted_under_a_level_without_alerts(judged: JudgedTwice) -> None:
    levels = {
        level
        for rule, level in judged.page.by("kipwatch_findings_total", "rule", "level")
        if rule == SUPPRESSED
    }
    assert levels == {"suppressed"}
    assert judged.page.total("kipwatch_rule_checks_total", rule=SUPPRESSED, verdict="violates") > 0


def test_an_invalid_record_is_counted_and_harmless(judged: JudgedTwice) -> None:
    assert judged.page.total("kipwatch_undecodable_frames_total", reason="not-a-record") == 2


def test_invalid_records_are_in_quarantine_and_each_is_accounted_for(judged: JudgedTwice) -> None:
    fates = judged.page.by("kipwatch_quarantined_records_total", "fate")
    assert fates == {("written",): 2, ("left-out",): 0, ("failed",): 0}
    consumer = Consumer({"bootstrap.servers": judged.feeding.kafka[1], "group.id": "test"})
    consumer.assign([TopicPartition("kipwatch.quarantine", 0, OFFSET_BEGINNING)])
    messages = consumer.consume(2, 30.0)
    consumer.close()
    assert {message.value() for message in messages} == {*INVALID_RECORDS}
    for message in messages:
        headers = dict(message.headers())
        place = [headers[f"kipwatch-{part}"].decode() for part in ("topic", "partition", "offset")]
        assert message.key().decode() == "/".join(place)
        assert headers["kipwatch-reason"]


def test_orphaned_offsets_of_a_kill_in_the_first_batch_are_removed(judged: JudgedTwice) -> None:
    assert not judged.orphan.exists()


@pytest.mark.long
def test_changed_decisions_are_taken_over_and_invalid_ones_refused(judged: JudgedTwice) -> None:
    query, path, feeding = judged.query, judged.path, judged.feeding
    before = feeding.finding("the first")
    assert not before.suppressed and before.level == "violation"
    reload(query, path, INVALID)
    query.wait_for('"query": "decisions-refused"', PATIENCE)
    reload(query, path, CHANGED)
    query.wait_for('"query": "decisions-reloaded"', PATIENCE)
    until(lambda: query.log.read_text().count('"query": "started"') > 1, PATIENCE, query)
    after = feeding.finding("the second")
    assert after.level == "information"
    assert after.suppressed and after.suppressed.reason == "renamed in July"
    log = query.log.read_text()
    assert "there is no rule 'kip511/nonsense'" in log
    assert '"changed": true, "needs_restart": ["trigger_seconds"]' in log


def essentials(finding: Finding) -> tuple[object, ...]:
    """The fields that do not depend on the source."""
    return (
        *finding.likeness(),
        finding.level,
        finding.spec,
        str(finding.suppressed),
        str(finding.header_layout),
    )
