"""A running query applies the decisions of users, with the same findings as `kipwatch check`."""

from __future__ import annotations

import time
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from expectations.judging.finding import Finding
from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.topics import FindingsTopic, create_topics
from streaming.check.examination import examine
from streaming.demo.progress import scrape
from streaming.metrics.exposition import MetricsPage
from streaming.settings.configuration import Configuration, configure
from streaming.settings.decisions import Decisions
from streaming.settings.release import load_schemas
from tests.captures import planted
from tests.e2e.feeding import feed_capture
from tests.e2e.free_pages import free_pages
from tests.e2e.quick_ticks import QuickChild

pytestmark = [pytest.mark.jvm, pytest.mark.e2e, pytest.mark.timeout(300)]

OFF, LOWERED, SUPPRESSED = (
    "kip1082/member-id-not-uuid",
    "kip1313/client-id-repeated",
    "kip511/software-name-malformed",
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
PATIENCE = 150.0


class JudgedTwice(NamedTuple):
    """Findings of the query, its metrics page, and findings of `check` on the same capture."""

    findings: list[Finding]
    page: MetricsPage
    checked: list[Finding]


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
        command = ["run", *kafka, "--config", str(path), "--metrics-address", page_at, "--buckets", "4"]
        with QuickChild([*command, "--checkpoint", str(folder / "checkpoint")], folder / "run.log") as query:
            topic = FindingsTopic(broker.internal, configuration.findings_topic)
            query.wait_for('"frames": ', PATIENCE)
            await_findings(topic, len(checked))
            page = scrape(page_at)
            topic.close()
    assert page is not None
    yield JudgedTwice(list(topic.findings.values()), page, checked)


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


def essentials(finding: Finding) -> tuple[object, ...]:
    """The fields that do not depend on the source."""
    return (
        *finding.likeness(),
        finding.level,
        finding.spec,
        str(finding.suppressed),
        str(finding.header_layout),
    )
