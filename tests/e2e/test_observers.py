"""Dashboards and alerts end to end: demo traffic, real Prometheus and Alertmanager, a webhook.

Only intervals differ from the committed rules, routes and dashboards: violations resolve after seconds.
"""

from __future__ import annotations

import json
import re
import time
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from dashboards.links import BROKERS, CLIENTS, CONFORMANCE, UPGRADE
from dashboards.protocol_alerts import CLIENT_VIOLATION, INSTANCE_ID_SHARED, MEMBER_ID_SHARED
from dashboards.queries import RANKS
from dashboards.runbook import RUNBOOK
from decoders.schema.registry import default_schemas
from expectations.judging.finding import Finding
from expectations.rules.base.rule import IdentityRule, Level, Role
from expectations.rules.catalogue import rule_named
from streaming.check.examination import examine
from streaming.demo.demo import Demo, offences_found
from streaming.demo.road import Road
from streaming.demo.screen import Screen
from streaming.demo.workload import api_versions
from streaming.feeder.capture import can_capture
from streaming.metrics.labels import LABEL_LIMIT, UNKNOWN, SoftwareSlots
from streaming.observe import Observers
from streaming.probe.client import InstanceClient, new_instance_id
from tests.dashboards.dashboard_files import DASHBOARDS, PANELS, queries
from tests.dashboards.prometheus import STEP, series_of
from tests.dashboards.rule_file import RULE_FILE
from tests.dashboards.stored_series import Stored
from tests.deploy.alertmanager import Notifications, receiving
from tests.e2e.pages import on_free_pages
from tests.repository.tree import anchors
from tests.waiting import until

pytestmark = [pytest.mark.jvm, pytest.mark.e2e, pytest.mark.timeout(1_500)]

RANGE, RATE = 1_200, "30s"
OWN_ALERTS = {
    INSTANCE_ID_SHARED: "KafkaClientInstanceIdShared",
    MEMBER_ID_SHARED: "KafkaMemberIdShared",
}
PLAYED_SECONDS, FOUND_SECONDS, SHOWN_SECONDS, RESOLVED_SECONDS = 300.0, 450.0, 90.0, 240.0
"""At most. With twenty processes beside it, all takes four times as long as usual."""


NOT_IN_DEMO = {
    "Endings of the query",
    "Evicted connections",
    "TLS connections by outcome",
    "Who should move on",
    "Who would break, and by what",
    "Requests that would be refused, by software",
    "Share of requests with an instance ID",
    "Records in quarantine",
    "Segments that contradict others",
    "Expectations not met",
    "Expectations",
    "Validations",
    "Connections by what Kubernetes tells",
}
"""Panels that show nothing of a demo: its query does not end, its feeder evicts no connection, its listeners
have no TLS, its clients send no deprecated or removed version, those with an instance ID speak so shortly
that there is no rate, nobody else writes to its topic or forges packets, its batches take less than the
minute before the first is validated, and no pod runs it."""


def quickly(rules: str) -> str:
    """The rule file with windows of 30 seconds instead of 5 minutes; alerts resolve after 5 seconds.

    A window stands in a rule twice: as a duration, and in seconds where it is compared with a series' birth.
    """
    shortened = re.sub(r"\b5m\b", "30s", re.sub(r"keep_firing_for: \w+", "keep_firing_for: 5s", rules))
    return re.sub(r"\btime\(\) - 300\b", "time() - 30", shortened)


@dataclass
class Seen:
    """What Prometheus and the webhook received while the demo played."""

    prometheus: str
    sent: Notifications
    findings: list[Finding]
    recording: Path

    def query(self, expression: str, *, over_time: bool) -> list[dict[str, Any]]:
        """Return the series of an expression. Fails if Prometheus refuses it."""
        return series_of(self.prometheus, expression, RANGE if over_time else 0)

    def alerts(self, status: str) -> set[tuple[str, str, str]]:
        """The alerts of one status that the webhook received: name, rule, client software."""
        return {
            tuple(alert["labels"].get(name, "") for name in ("alertname", "rule", "client_software_name"))
            for hook in self.sent.hooks
            for alert in hook["alerts"]
            if alert["status"] == status
        }

    def planted(self) -> set[tuple[str, str, str]]:
        """The alerts that the findings must cause."""
        return {alert_of(finding) for finding in self._violations()} - self.unidentified()

    def unidentified(self) -> set[tuple[str, str, str]]:
        """The alerts that no single offence may cause: those on clients that never said their name."""
        return {
            alert
            for alert in map(alert_of, self._violations())
            if alert[0] == CLIENT_VIOLATION and alert[2] == UNKNOWN
        }

    def _violations(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.level == Level.VIOLATION]


def alert_of(finding: Finding) -> tuple[str, str, str]:
    """The alert that a violation must cause: its name, rule and client software, if it names one."""
    if finding.rule in OWN_ALERTS:
        return OWN_ALERTS[finding.rule], finding.rule, ""
    if finding.role == Role.BROKER:
        return "KafkaBrokerProtocolViolation", finding.rule, ""
    software, _ = SoftwareSlots(LABEL_LIMIT, lambda _: None).admit(finding.client_software_name, None)
    return CLIENT_VIOLATION, finding.rule, software


def found_all(demo: Demo) -> bool:
    """Whether all planted offences are found, after reading new findings."""
    demo.show(0.5)
    return all(found for _, found in offences_found(demo.findings(), demo.played))


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    """Play the demo's clients on a road with observers, and leave all of it running."""
    folder = tmp_path_factory.mktemp("observed")
    configuration = on_free_pages()
    rules = folder / "rules.yml"
    rules.write_text(quickly(RULE_FILE.read_text()))
    screen, captured = Screen(Console()), can_capture()
    with (
        receiving(folder) as (routing, sent),
        Road(folder, captured, configuration, screen.say) as road,
        # After the feeder and the query have started: on a busy machine their absence would be alerted.
        Observers(configuration, rules=rules, routing=routing) as observers,
    ):
        demo = Demo(road, configuration, screen, captured)
        try:
            demo.play(PLAYED_SECONDS)
            until(lambda: found_all(demo), FOUND_SECONDS)
            seen = Seen(observers.prometheus.url, sent, demo.findings(), road.recording)
            # All others have disconnected, perhaps before a scrape counted them.
            with InstanceClient(road.schemas, road.front_address, "stays", new_instance_id()) as staying:
                api_versions(staying)
                until(lambda: seen.query("kipwatch_connections", over_time=False), 60.0)
                yield seen
        finally:
            demo.close()


@pytest.mark.parametrize(
    "panel",
    [panel for _, panel in PANELS if panel["title"] not in NOT_IN_DEMO],
    ids=[f"{uid}: {panel['title']}" for uid, panel in PANELS if panel["title"] not in NOT_IN_DEMO],
)
def test_every_panel_shows_something_of_the_demo(seen: Seen, panel: dict[str, Any]) -> None:
    expressions = queries(panel, span=f"{RANGE}s", rate=RATE)
    # Some show only that there is nothing: no data, or no offence.
    for expression in (each for each in expressions if "unless on ()" not in each):
        # The demo is too short for a resolution of a minute, and a rate needs two scrapes.
        quick = expression.replace(":1m]", f":{STEP}s]")
        # What a panel showed a while ago counts, too: the clients have ended.
        until(partial(seen.query, quick, over_time=True), SHOWN_SECONDS)


def settles(rule: str) -> bool:
    """Whether checks of a rule are counted when identities settle: in minutes, for `check` at the end."""
    return isinstance(rule_named(rule), IdentityRule)


def test_what_panels_say_of_the_demo_is_true(seen: Seen) -> None:
    """Counted by `check` in the recorded capture, and so without the query, its metrics and Prometheus."""
    examined = examine(seen.recording, default_schemas())
    slots = SoftwareSlots(LABEL_LIMIT, lambda _: None)
    offences: Counter[tuple[str, str, str, int]] = Counter()
    clients: dict[str, set[tuple[str, str]]] = {level: set() for level in RANKS}
    for finding in examined.findings:
        software = slots.admit(finding.client_software_name, finding.client_software_version)
        offences[*software, finding.rule, RANKS[finding.level]] += finding.occurrences
        if finding.role == Role.CLIENT:
            clients[finding.level].add(software)
    requests, names = Counter[tuple[str, str]](), default_schemas().api_names
    for _, _, usage in examined.usage:
        for (key, version), count in usage.uses.items():
            if key in names:  # The panel shows APIs that the schemas have.
                requests[names[key], str(version)] += count.requests
    violations = sum(times for (*_, rank), times in offences.items() if rank == RANKS[Level.VIOLATION])
    true = {
        "offences": offences,
        "violations": violations,
        "violating": len(clients[Level.VIOLATION]),
        "at risk": len(clients[Level.IMPROVEMENT]),
        "requests": requests,
        "brokers": len({broker.address for broker in examined.brokers}),
        "exercised": {each.rule for each in examined.coverage if each.exercised and not settles(each.rule)},
    }

    def said() -> dict[str, Any]:
        now = Stored(seen.prometheus, int(time.time()))
        span = f"{RANGE}s"
        found = now.rows(CONFORMANCE, "Offences", span=span)
        sent: Counter[tuple[str, str]] = Counter()
        for row in now.rows(UPGRADE, "Requests by software and version", span=span):
            sent[row["API"], row["Version"]] += int(row["Requests"])
        covered = now.rows(CONFORMANCE, "Coverage", span=span)
        return {
            "offences": {
                (row["Client"], row["Version"], row["Rule"], row["Level"]): row["Offences"] for row in found
            },
            "violations": now.figure(CONFORMANCE, "Violations", span=span),
            "violating": now.figure(CLIENTS, "Versions that violate", span=span),
            "at risk": now.figure(CLIENTS, "Versions at risk", span=span),
            "requests": sent,
            "brokers": now.figure(BROKERS, "Brokers", span=span),
            "exercised": {row["Rule"] for row in covered if row["Exercised"] and not settles(row["Rule"])},
        }

    deadline = time.monotonic() + SHOWN_SECONDS
    while said() != true and time.monotonic() < deadline:
        time.sleep(1)
    assert said() == true


def test_what_was_planted_arrives_as_alerts(seen: Seen) -> None:
    assert len(seen.planted()) >= 8
    until(lambda: seen.planted() <= seen.alerts("firing"), 60.0)
    firing = {name for name, *_ in seen.alerts("firing")}
    assert firing <= {
        "KafkaClientProtocolViolation",
        "KafkaBrokerProtocolViolation",
        *OWN_ALERTS.values(),
        "KafkaClientSoftwareNewlyViolating",
        "KipwatchWatchdog",
        "KipwatchUndecodableFrames",
    }
    assert seen.unidentified()
    assert not seen.unidentified() & seen.alerts("firing")


def test_the_links_of_alerts_work(seen: Seen) -> None:
    """The runbook has the section, Grafana has the dashboard, and the link selects the rule on it."""
    sections = anchors(Path(RUNBOOK))
    for alert in (alert for hook in seen.sent.hooks for alert in hook["alerts"]):
        path, _, anchor = alert["annotations"]["runbook_url"].partition("#")
        assert (path, anchor in sections) == (RUNBOOK, True), alert
        address = urllib.parse.urlsplit(alert["annotations"]["dashboard_url"])
        assert address.path.removeprefix("/d/") in DASHBOARDS
        chosen = urllib.parse.parse_qs(address.query)
        if alert["labels"]["alertname"] == "KafkaClientProtocolViolation":
            assert chosen["var-rule"] == [alert["labels"]["rule"]]
            assert chosen["var-software"] == [alert["labels"]["client_software_name"]]


def test_violations_that_do_not_recur_are_resolved(seen: Seen) -> None:
    until(lambda: seen.planted() <= seen.alerts("resolved"), RESOLVED_SECONDS)


def test_prometheus_reaches_both_and_evaluates_every_rule(seen: Seen) -> None:
    """No rule fails on real series; promtool only parses rules."""
    assert {series["value"][1] for series in seen.query("up", over_time=False)} == {"1"}
    with urllib.request.urlopen(f"{seen.prometheus}/api/v1/rules", timeout=10) as response:
        groups = json.load(response)["data"]["groups"]
    assert {rule["health"] for group in groups for rule in group["rules"]} == {"ok"}
