"""The whole road on real traffic: real broker, feeder, Spark and clients.

It is played with packets captured on the loopback interface, in plaintext and over TLS, if that is permitted,
and with recording relays. `make test` plays the first of these ways, `make long` the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from rich.console import Console

from decoders.codec.request import read_request
from decoders.frame.record import Kind, Record
from decoders.schema.registry import default_schemas
from expectations.conversation.observation import EVIDENCE_BYTES
from expectations.judging.finding import Finding
from expectations.rules.base.rule import IdentityRule
from expectations.rules.catalogue import rule_named
from streaming.audit.frames_topic import latest_slice
from streaming.check.examination import Examination, examine
from streaming.demo.demo import Demo, offences_found, unplanted_violations
from streaming.demo.offences import PlantedOffence
from streaming.demo.road import Road
from streaming.demo.screen import Screen
from streaming.feeder.capture import can_capture
from streaming.metrics.exposition import MetricsPage
from tests.e2e.found import likenesses
from tests.e2e.pages import on_free_pages
from tests.streaming.broker.request_log import LoggedRequest, read_request_log

pytestmark = [pytest.mark.jvm, pytest.mark.e2e, pytest.mark.timeout(900)]

FIRST, *OTHERS = ["capture", "tls", "relay"] if can_capture() else ["relay"]
WAYS = [FIRST, *(pytest.param(way, marks=pytest.mark.long) for way in OTHERS)]
EVERYTHING = 1_000_000


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


@pytest.fixture(scope="module", params=WAYS)
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """Play the demo's clients on a road and wait until everything is judged."""
    configuration = on_free_pages()
    console = Console(record=True, width=1_000)
    screen, captured, encrypt = Screen(console), request.param != "relay", request.param == "tls"
    with Road(tmp_path_factory.mktemp("road"), captured, configuration, screen.say, encrypt=encrypt) as road:
        demo = Demo(road, configuration, screen, captured)
        try:
            demo.play(300.0)
            demo.drain()
            records = latest_slice(road.internal, configuration.frames_topic, EVERYTHING).frames
            yield Played(
                findings=demo.findings(),
                page=demo.page(),
                examination=examine(road.recording, road.schemas, key_logs=road.key_logs),
                placed={(partition, offset, row): record for partition, offset, row, record in records},
                logged=list(read_request_log(road.broker.request_log)),
                watched_port=int(road.watched.rpartition(":")[2]),
                planted=demo.played,
                shown=console.export_text(),
            )
        finally:
            demo.close()


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
        settles = isinstance(rule_named(coverage.rule), IdentityRule)
        for verdict in ("conforms", "violates", "undecided"):
            count, expected = counted[coverage.rule, verdict], getattr(coverage, verdict)
            assert count <= expected if settles else count == expected, coverage.rule


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
