"""A running query judges by what its users have decided, and comes to what `kipwatch check` comes to."""

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
from streaming.broker.ports import free_ports
from streaming.broker.topics import create_topics
from streaming.check.examination import examine
from streaming.demo.child import Child
from streaming.demo.findings_topic import FindingsTopic
from streaming.demo.page import MetricsPage, scrape
from streaming.settings.configuration import Configuration, configure
from streaming.settings.decisions import Decisions
from streaming.settings.release import load_schemas
from tests.captures import planted

pytestmark = [pytest.mark.jvm, pytest.mark.e2e, pytest.mark.timeout(300)]

OFF, LOWERED, BORNE = (
    "kip1082/member-id-not-uuid",
    "kip1313/client-id-repeated",
    "kip511/software-name-malformed",
)
DECIDED = f"""
disable = ["{OFF}"]
spec = ["kip1313=text"]

[levels]
"{LOWERED}" = "information"

[[suppress]]
rule = "{BORNE}"
reason = "renamed in June"
until = 2999-01-01
"""
PATIENCE = 150.0


class Judged(NamedTuple):
    """What the query told, and what `check` tells of the same capture."""

    findings: list[Finding]
    page: MetricsPage
    checked: list[Finding]


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    folder = tmp_path_factory.mktemp("decisions")
    path = folder / "kipwatch.toml"
    path.write_text(DECIDED)
    (port,) = free_ports(1)
    page_at = f"127.0.0.1:{port}"
    configuration = configured(path)
    checked = examine(planted.CAPTURE, load_schemas(""), terms=Decisions(configuration).terms).findings
    with EmbeddedBroker() as broker:
        kafka = ["--bootstrap", broker.internal]
        create_topics(broker.internal, configuration.frames_topic, configuration.findings_topic)
        ports = ["--ports", checked[0].broker.rpartition(":")[2]]
        with Child(["feed", *kafka, *ports, str(planted.CAPTURE)], folder / "feed.log") as feeder:
            feeder.wait(PATIENCE)
        command = ["run", *kafka, "--config", str(path), "--metrics-address", page_at, "--buckets", "4"]
        with Child([*command, "--checkpoint", str(folder / "checkpoint")], folder / "run.log") as query:
            topic = FindingsTopic(broker.internal, configuration.findings_topic)
            query.wait_for('"frames": ', PATIENCE)
            await_findings(topic, len(checked))
            page = scrape(page_at)
            topic.close()
    assert page is not None
    yield Judged(list(topic.findings.values()), page, checked)


def configured(path: Path) -> Configuration:
    return configure(Namespace(config=path))


def await_findings(topic: FindingsTopic, count: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while len(topic.findings) < count and time.monotonic() < deadline:
        topic.poll(1.0)


def test_topic_and_check_tell_the_same(judged: Judged) -> None:
    assert Counter(map(decided, judged.findings)) == Counter(map(decided, judged.checked))


def test_each_decision_shows(judged: Judged) -> None:
    rules = {finding.rule: finding for finding in judged.findings}
    assert OFF not in rules
    assert rules[LOWERED].level == "information"
    assert {finding.spec for finding in judged.findings if finding.kip == "KIP-1313"} == {"text"}
    borne = rules[BORNE].suppressed
    assert borne and (borne.reason, borne.until) == ("renamed in June", "2999-01-01")


def test_what_is_borne_is_counted_where_no_alert_looks(judged: Judged) -> None:
    levels = {
        level for rule, level in judged.page.by("kipwatch_findings_total", "rule", "level") if rule == BORNE
    }
    assert levels == {"suppressed"}
    assert judged.page.total("kipwatch_rule_checks_total", rule=BORNE, verdict="violates") > 0


def decided(finding: Finding) -> tuple[object, ...]:
    """What findings share, however their frames came."""
    return (
        *finding.likeness(),
        finding.level,
        finding.spec,
        str(finding.suppressed),
        str(finding.header_layout),
    )
