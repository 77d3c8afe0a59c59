"""The whole road on real traffic: real broker, feeder, Spark and clients, and those who observe them.

It is played with packets captured on the loopback interface, in plaintext and over TLS, if that is permitted,
and with recording relays. `make test` plays the first of these ways, observed by a real Prometheus and
Alertmanager, `make long` the others.
"""

from __future__ import annotations

import json
import time
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from rich.console import Console

from dashboards.runbook import RUNBOOK
from decoders.codec.request import read_request
from decoders.frame.record import Kind, Record
from decoders.schema.registry import default_schemas
from expectations.conversation.observation import EVIDENCE_BYTES
from expectations.judging.finding import Finding
from streaming.audit.frames_topic import latest_slice
from streaming.check.examination import Examination, examine
from streaming.demo.demo import Demo, offences_found, unplanted_violations
from streaming.demo.offences import PlantedOffence
from streaming.demo.road import Road
from streaming.demo.screen import Screen
from streaming.demo.workload import api_versions
from streaming.feeder.capture import can_capture
from streaming.metrics.exposition import MetricsPage
from streaming.observe import observing
from streaming.probe.client import InstanceClient, new_instance_id
from streaming.settings.configuration import Configuration
from tests.dashboards.dashboard_files import DASHBOARDS, PANELS, queries
from tests.dashboards.prometheus import STEP
from tests.dashboards.rule_file import RULE_FILE
from tests.deploy.alertmanager import receiving
from tests.e2e.found import likenesses
from tests.e2e.observed import OWN_ALERTS, RANGE, Seen, counted, quickly, settles, shown
from tests.e2e.pages import on_free_pages
from tests.repository.tree import anchors
from tests.streaming.broker.request_log import LoggedRequest, read_request_log
from tests.waiting import until

pytestmark = [pytest.mark.jvm, pytest.mark.slow, pytest.mark.e2e, pytest.mark.timeout(1_500)]

FIRST, *OTHERS = ["capture", "tls", "relay"] if can_capture() else ["relay"]
WAYS = [FIRST, *(pytest.param(way, marks=pytest.mark.long) for way in OTHERS)]
EVERYTHING = 1_000_000
RATE = "30s"
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


@dataclass
class Played:
    """The results of one run of the road. `shown` is what the demo has printed meanwhile."""

    findings: list[Finding]
    page: MetricsPage
    examination: Examination
    placed: dict[tuple[int, int, int], Record]
    logged: list[LoggedRequest]
    watched_port: int
    planted: dict[str, PlantedOffence]
    shown: str

    @property
    def records(self) -> list[Record]:
        """The records of the frames topic."""
        return list(self.placed.values())


class Playing(NamedTuple):
    """A demo whose clients have played, on a road that goes on."""

    road: Road
    demo: Demo
    console: Console
    configuration: Configuration

    def drained(self) -> Played:
        """End the feeding, wait until everything is judged, and return the results."""
        road, demo = self.road, self.demo
        demo.drain()
        records = latest_slice(road.internal, self.configuration.frames_topic, EVERYTHING).frames
        return Played(
            findings=demo.findings(),
            page=demo.page(),
            examination=examine(road.recording, road.schemas, key_logs=road.key_logs),
            placed={(partition, offset, row): record for partition, offset, row, record in records},
            logged=list(read_request_log(road.broker.request_log)),
            watched_port=int(road.watched.rpartition(":")[2]),
            planted=demo.played,
            shown=self.console.export_text(),
        )


@contextmanager
def playing(folder: Path, way: str, configuration: Configuration) -> Iterator[Playing]:
    """Play the demo's clients on a road of their own, which ends with the context."""
    console = Console(record=True, width=1_000)
    screen, captured, encrypt = Screen(console), way != "relay", way == "tls"
    with Road(folder, captured, configuration, screen.say, encrypt=encrypt) as road:
        demo = Demo(road, configuration, screen, captured)
        try:
            yield Playing(road, demo, console, configuration)
        finally:
            demo.close()


def found_all(demo: Demo) -> bool:
    """Whether all planted offences are found, after reading new findings."""
    demo.show(0.5)
    return all(found for _, found in offences_found(demo.findings(), demo.played))


@dataclass
class Observed:
    """A demo that was played and found whole. It runs on with its observers and the client `staying`."""

    playing: Playing
    seen: Seen
    staying: ExitStack


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observed]:
    """Play the demo on the first way with observers, and leave all of it running."""
    folder, configuration = tmp_path_factory.mktemp("observed"), on_free_pages()
    rules = folder / "rules.yml"
    rules.write_text(quickly(RULE_FILE.read_text()))
    with (
        receiving(folder) as (routing, sent),
        playing(folder, FIRST, configuration) as played,
        # After the feeder and the query have started: on a busy machine their absence would be alerted.
        observing(configuration, rules=rules, routing=routing) as observers,
    ):
        road, demo = played.road, played.demo
        demo.play(PLAYED_SECONDS)
        until(lambda: found_all(demo), FOUND_SECONDS)
        seen = Seen(observers.prometheus.url, sent, demo.findings(), road.recording)
        # All others have disconnected, perhaps before a scrape counted them.
        with ExitStack() as staying:
            client = InstanceClient(road.schemas, road.front_address, "stays", new_instance_id())
            api_versions(staying.enter_context(client))
            until(lambda: seen.query("kipwatch_connections", over_time=False), 60.0)
            yield Observed(played, seen, staying)


@pytest.fixture(scope="module")
def seen(observed: Observed) -> Seen:
    return observed.seen


@pytest.fixture(scope="module", params=WAYS)
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """Wait until everything of a played demo is judged. The observed one ends its feeding with this."""
    if request.param == FIRST:
        observed: Observed = request.getfixturevalue("observed")
        observed.staying.close()
        yield observed.playing.drained()
        return
    with playing(tmp_path_factory.mktemp("road"), request.param, on_free_pages()) as played:
        played.demo.play(PLAYED_SECONDS)
        yield played.drained()


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


def test_what_panels_say_of_the_demo_is_true(seen: Seen) -> None:
    true = counted(seen.recording)
    deadline = time.monotonic() + SHOWN_SECONDS
    while shown(seen.prometheus) != true and time.monotonic() < deadline:
        time.sleep(1)
    assert shown(seen.prometheus) == true


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


def test_evidence_names_the_place_of_its_frame_in_the_topic(played: Played) -> None:
    assert played.findings
    for finding in played.findings:
        evidence = finding.evidence
        assert evidence.partition is not None and evidence.offset is not None and evidence.row is not None
        record = played.placed[evidence.partition, evidence.offset, evidence.row]
        assert (record.connection.hex(), record.sequence) == (finding.connection, finding.sequence)
        assert record.frame[:EVIDENCE_BYTES].hex() == evidence.bytes


def test_all_that_was_planted_is_found(played: Played) -> None:
    missed = [planted.name for planted, found in offences_found(played.findings, played.planted) if not found]
    assert missed == []


def test_each_finding_is_shown_as_it_comes(played: Played) -> None:
    assert [finding.rule for finding in played.findings if finding.rule not in played.shown] == []


def test_nothing_else_violates(played: Played) -> None:
    assert unplanted_violations(played.findings, played.planted) == []


def test_topic_and_check_have_the_same_findings(played: Played) -> None:
    assert likenesses(played.findings) == likenesses(played.examination.findings)


def test_the_metrics_page_counts_the_same_findings(played: Played) -> None:
    occurrences: Counter[tuple[str, ...]] = Counter()
    for finding in played.findings:
        occurrences[finding.rule, finding.level] += finding.occurrences
    assert played.page.by("kipwatch_findings_total", "rule", "level") == occurrences


def test_the_metrics_page_counts_the_same_checks(played: Played) -> None:
    """Checks of shared identities are counted when they settle, for which the road ends too soon."""
    counted = played.page.by("kipwatch_rule_checks_total", "rule", "verdict")
    for coverage in played.examination.coverage:
        for verdict in ("conforms", "violates", "undecided"):
            count, expected = counted[coverage.rule, verdict], getattr(coverage, verdict)
            assert count <= expected if settles(coverage.rule) else count == expected, coverage.rule


def test_every_frame_of_the_topic_was_judged(played: Played) -> None:
    frames = sum(record.kind in (Kind.REQUEST, Kind.RESPONSE) for record in played.records)
    assert played.page.total("kipwatch_frames_total") == frames == played.examination.frames


def test_every_connection_has_an_end(played: Played) -> None:
    kinds = Counter(record.kind for record in played.records)
    assert kinds[Kind.OPENED] == kinds[Kind.CLOSED] > 0
    assert played.page.total("kipwatch_open_connections") == 0


def test_the_broker_logged_exactly_the_decoded_requests(played: Played) -> None:
    decoded = Counter(_identity(record) for record in played.records if _is_watched_request(record, played))
    logged = Counter(
        (line.api_key, line.api_version, line.correlation_id, line.client_id)
        for line in played.logged
        if line.listener == "WATCHED"
    )
    assert decoded == logged
    assert decoded.total() > 50


def test_nothing_was_lost(played: Played) -> None:
    assert played.examination.ledger["lost"] == 0
    assert not [record for record in played.records if record.kind is Kind.GAP]


def _is_watched_request(record: Record, played: Played) -> bool:
    return record.kind is Kind.REQUEST and record.server.endswith(f":{played.watched_port}")


def _identity(record: Record) -> tuple[int, int, int | None, str]:
    request = read_request(default_schemas(), record.frame, cut=record.is_cut)
    return request.api_key, request.api_version, request.correlation_id, request.client_id or ""
