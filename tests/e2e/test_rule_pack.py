"""What users add to a query: a rule pack, whose state outlives a kill, and policies, which it validates live.

Without the pack the query goes on.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer

from decoders.frame.columnar.block_writing import write_block
from decoders.frame.record import Record
from decoders.schema.registry import default_schemas
from expectations.judging.finding import Finding
from kipwatch.__main__ import main
from streaming.audit import live_validation
from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.topics import FindingsTopic, create_topics
from streaming.demo.progress import scrape
from streaming.demo.road import Child
from streaming.settings.configuration import FramesTopicSettings, Topics
from tests.e2e.pages import free_pages
from tests.e2e.process_tree import children
from tests.exchange import SOFTWARE, Exchange, advertisement
from tests.expectations.rules.test_packs import RULE, break_page
from tests.rule_pack import install, searched
from tests.streaming.captures import write_capture
from tests.streaming.commands.ran import run_process
from tests.streaming.commands.test_rule_packs import insistent
from tests.waiting import until

pytestmark = [pytest.mark.jvm, pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(1_500)]

PATIENCE = 300.0
POLICIES = {
    "kept": ("client_software_name", "[tester]", "Only our own client connects."),
    "broken": ("client_software_version", '["2.0"]', "Every client is of version 2."),
}
CHECKS, REFUSED = "kipwatch_rule_checks_total", "kipwatch_rule_packs_refused"


class EarlyChild(Child):
    """A command of a kipwatch that validates its first batch."""

    module = __name__


class Live:
    """A broker, and one query after another on its topics."""

    def __init__(self, broker: EmbeddedBroker, folder: Path) -> None:
        self._folder, self._kafka = folder, broker.internal
        create_topics(self._kafka, "frames", "kipwatch.findings", Topics(FramesTopicSettings(partitions=1)))
        self._topic = FindingsTopic(self._kafka, "kipwatch.findings")
        self._starts = 0

    def start(self) -> Child:
        self._starts += 1
        (self._page_at,) = free_pages(1)
        command = ["run", "--bootstrap", self._kafka, "--frames-topic", "frames", "--buckets", "4"]
        command += ["--checkpoint", str(self._folder / "checkpoint"), "--metrics-address", self._page_at]
        command += ["--archive", str(self._folder / "archive"), "--policies", str(self._folder / "policies")]
        query = EarlyChild(command, self._folder / f"run-{self._starts}.log")
        query.wait_for('"query": "started"', PATIENCE)
        return query

    def publish(self, records: Sequence[Record]) -> None:
        producer = Producer({"bootstrap.servers": self._kafka})
        producer.produce("frames", write_block(records, default_schemas().digest), b"key")
        assert producer.flush(30) == 0

    def figure(self, name: str, **labels: str) -> float:
        page = scrape(self._page_at)
        return page.total(name, **labels) if page is not None else -1.0

    def checked_rules(self) -> set[str]:
        page = scrape(self._page_at)
        assert page is not None
        return {rule for (rule,) in page.by(CHECKS, "rule")}

    def findings(self) -> dict[str, Finding]:
        """The findings by their rules."""
        self._topic.poll(1.0)
        return {finding.rule: finding for finding in self._topic.findings.values()}

    def close(self) -> None:
        self._topic.close()


POLICY = """\
name: {name}
meta: {{table: connections}}
expectations:
  - type: expect_column_values_to_be_in_set
    kwargs: {{column: {column}, value_set: {values}}}
    meta: {{id: demanded, says: {says}}}
"""


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    with EmbeddedBroker() as broker:
        live = Live(broker, tmp_path)
        yield live
        live.close()


def test_a_pack_and_policies_in_the_query_and_without_the_pack(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = install(tmp_path / "site")
    (tmp_path / "policies").mkdir()
    for name, (column, values, says) in POLICIES.items():
        policy = POLICY.format(name=name, column=column, values=values, says=says)
        (tmp_path / "policies" / f"{name}.yaml").write_text(policy)
    monkeypatch.setenv("PYTHONPATH", searched(tmp_path / "site"))
    exchange = insistent()
    opened_and_asked_twice, asked_again = exchange.records[:5], exchange.records[5:]

    with live.start() as query:
        assert live.checked_rules() >= {RULE, "kip511/software-name-malformed"}  # from the start
        live.publish(opened_and_asked_twice)
        until(lambda: live.figure(CHECKS, rule=RULE, verdict="conforms") == 2, PATIENCE, query)
        commits = tmp_path / "checkpoint" / "commits"
        until(lambda: any(commits.glob("[0-9]*")), PATIENCE, query)
        for name, (_, _, says) in POLICIES.items():
            until(lambda: live.figure("kipwatch_policy_info", suite=name, says=says) == 1, PATIENCE, query)  # noqa: B023
            met = live.figure("kipwatch_expectation_success", suite=name, expectation="demanded")
            assert met == (name == "kept")
        (process,) = children(query.process_id)
        os.kill(process, signal.SIGKILL)

    with live.start() as query:
        live.publish(asked_again)
        until(lambda: live.figure(CHECKS, rule=RULE, verdict="violates") == 3, PATIENCE, query)
        until(lambda: RULE in live.findings(), PATIENCE, query)
    found = live.findings()[RULE]
    capture = write_capture(tmp_path / "insistent.pcap", exchange)
    checked = json.loads(run_process("check", capture, "--json").output)["findings"]
    (of_check,) = (finding for finding in checked if finding["rule"] == RULE)
    assert found.occurrences == of_check["occurrences"] == 3
    assert (found.context, found.message) == (of_check["context"], of_check["message"])
    assert (found.client, found.broker) == (of_check["client"], of_check["broker"])
    assert found.runbook == of_check["runbook"] == "https://wiki.example/kafka-rules#acmeversions-asked-often"

    break_page(package)
    stranger = Exchange(connection=b"s" * 16, client="10.0.0.7:40007")
    request = stranger.request("ApiVersions", 3, SOFTWARE | {"clientSoftwareName": "RP Console"})
    stranger.respond(request, advertisement(42))
    stranger.close()
    with live.start() as query:
        assert live.figure(REFUSED) == 1
        exchange.negotiate(3)
        live.publish([*exchange.records[-2:], *stranger.records])
        until(lambda: "kip511/software-name-malformed" in live.findings(), PATIENCE, query)
        assert RULE not in live.checked_rules()
    refused = f"{RULE} has a page whose headings are not"
    line = next(line for line in query.log.read_text().splitlines() if '"query": "pack-refused"' in line)
    assert json.loads(line)["line"].startswith(refused)
    assert live.findings()[RULE].occurrences == 3


if __name__ == "__main__":
    live_validation.FIRST_AFTER = 0.0  # type: ignore[misc]
    sys.exit(main())
