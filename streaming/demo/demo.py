"""The demo: clients run on the whole road, and the findings are compared with the planted offences.

Real clients and the KIP-1313 client run on a thread each, while new findings and progress are shown. When
both are done, the feeder finishes and the query judges what is left. The findings topic must then have what
was planted, as must `kipwatch check` on the recorded capture, and the audit of the frames topic must hold.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NoReturn

from rich.text import Text

from expectations.judging.finding import Finding
from expectations.report.coverage import Coverage, coverage_of
from expectations.report.terminal import findings_list
from expectations.rules.base.rule import Level, Rule
from expectations.rules.catalogue import RULES
from streaming.broker.ports import HOST
from streaming.broker.topics import FindingsTopic
from streaming.check.examination import examine
from streaming.demo.offences import CLIENT_ID, PLANTED, PlantedOffence, play
from streaming.demo.progress import (
    STALLED_SECONDS,
    Backlog,
    Offsets,
    Standstill,
    finding_note,
    last_event,
    load_note,
    scrape,
    stage,
    waiting,
)
from streaming.demo.road import Road
from streaming.demo.screen import Screen
from streaming.demo.workload import converse, run_workload
from streaming.metrics import definitions as metrics
from streaming.metrics.exposition import MetricsPage
from streaming.probe.client import InstanceClient, new_instance_id
from streaming.settings.configuration import Configuration
from streaming.settings.decisions import Decisions
from streaming.user_error import UserError

Played = Mapping[str, PlantedOffence]
"""The planted offences by the address and port of the client that played them."""
SETTLE_CAPTURED = 1.5
SETTLE_RELAYED = 5.5
"""Seconds until a client has certainly read a response: 1 s in captured packets, 5 s in a relay's, and a
margin."""
QUIET_SECONDS = 3.0
AUDITED_RECORDS = 10_000
_HOSTS = [f"127.0.1.{number}" for number in range(1, len(PLANTED) + 1)]
"""An address for each planted offence, since the kernel may reuse a port for another client in seconds."""


class Demo:
    """One run of the demo on a running road."""

    def __init__(self, road: Road, configuration: Configuration, screen: Screen, captured: bool) -> None:
        self._road, self._configuration, self._screen = road, configuration, screen
        self._terms = Decisions(configuration).terms
        self._settle = SETTLE_CAPTURED if captured else SETTLE_RELAYED
        self._topic = FindingsTopic(road.internal, configuration.findings_topic)
        self._backlog = Backlog(road.internal, configuration.frames_topic, road.checkpoint)
        self._standstill = Standstill(time.monotonic(), STALLED_SECONDS)
        self._feeder_page: MetricsPage | None = None
        self._stop = threading.Event()
        self._failures: list[str] = []
        self.played: dict[str, PlantedOffence] = {}

    def play(self, seconds: float | None = None) -> None:
        """Run all clients until they are done, at most `seconds` long, and show findings meanwhile.

        Raises UserError if a client fails, or if the feeder or the query ends.
        """
        deadline = math.inf if seconds is None else time.monotonic() + seconds
        clients = [
            threading.Thread(target=self._run_client, args=(work,), daemon=True)
            for work in (self._run_real_clients, self._run_instance_clients)
        ]
        for client in clients:
            client.start()
        while any(client.is_alive() for client in clients):
            if time.monotonic() > deadline:
                self._stop.set()
            self.show(1.0)
            self._road.check_running()
        if self._failures:
            raise UserError(f"a client of the demo failed: {self._failures[0]}")

    def show(self, seconds: float) -> None:
        """Show new findings and what waits to be judged, waiting at most `seconds` for the first finding."""
        self._show_new_findings(seconds)
        self._show_progress(self._backlog.end() or {})

    def drain(self, keep: bool = False) -> None:
        """Wait until the feeder has finished and the query has judged all. Raises UserError if they stall.

        With `keep` the feeder goes on, and counts as finished when it captures nothing new.
        """
        self._screen.say("all clients are done; waiting until the query has judged everything")
        if keep:
            self._await_quiet()
        else:
            self._road.end_feeding()
        self._await_judged()
        self.show(2.0)

    def watch(self) -> NoReturn:
        """Show new findings until interrupted. Raises UserError if the feeder or the query ends."""
        while True:
            self._road.check_running()
            self._show_new_findings(1.0)

    def findings(self) -> list[Finding]:
        """Return the latest state of each finding, in the order of first capture."""
        return sorted(self._topic.findings.values(), key=lambda finding: finding.first_captured_at)

    def show_findings(self) -> None:
        """Show what was found so far."""
        findings = self.findings()
        self._screen.part("Found so far", findings_list(findings) if findings else Text("nothing"))

    def coverage(self) -> list[Coverage]:
        """Return the coverage of every rule, from the metrics page."""
        checks = self.page().by(metrics.RULE_CHECKS.name, "rule", "verdict")
        counts = {(rule, verdict): int(count) for (rule, verdict), count in checks.items()}
        return coverage_of(counts, self._terms.rules)

    def page(self) -> MetricsPage:
        """Read the application's metrics page. Raises UserError if it does not respond."""
        page = scrape(self._configuration.metrics_address)
        if page is None:
            raise UserError(f"no response from {self._configuration.metrics_address}/metrics")
        return page

    def conclude(self) -> bool:
        """Show the verdict, and all tables if it is bad.

        Returns whether exactly what was planted was found, and all accounts agree.
        """
        from streaming.audit.audit import audit, audit_table  # noqa: PLC0415  # takes seconds to load

        findings = self.findings()
        planted = offences_found(findings, self.played, self._terms.rules)
        audited = audit(self._road.internal, self._configuration.frames_topic, AUDITED_RECORDS)
        checked, sound = self._check_recording(findings), all(result.success for result in audited)
        unplanted = unplanted_violations(findings, self.played)
        succeeded = all(found for _, found in planted) and not unplanted and sound and checked
        if not succeeded:
            self._screen.tables(findings, self.coverage())
            for result in audited:
                self._screen.part(f"Audit of the frames topic: {result.table}", audit_table(result))
        self._screen.planted(planted)
        met = "every expectation is met" if sound else "expectations are NOT met"
        self._screen.say(f"`kipwatch audit` of the frames topic: {met}")
        same = "the same findings" if checked else "OTHER findings"
        self._screen.say(f"`kipwatch check` on the recorded capture: {same}")
        for finding in unplanted:
            self._screen.say(f"not planted: {finding.rule} on {finding.client}: {finding.message}")
        self._screen.verdict(succeeded, sum(found for _, found in planted), len(planted))
        return succeeded

    def close(self) -> None:
        """Stop the clients and close the connections to both topics."""
        self._stop.set()
        self._topic.close()
        self._backlog.close()

    def _show_new_findings(self, seconds: float) -> None:
        for finding in self._topic.poll(seconds):
            self._screen.finding(finding)

    def _check_recording(self, findings: Sequence[Finding]) -> bool:
        examination = examine(
            self._road.recording, self._road.schemas, terms=self._terms, key_logs=self._road.key_logs
        )
        return same_findings(findings, examination.findings)

    def _await_quiet(self) -> None:
        captured, since = -1.0, time.monotonic()
        while time.monotonic() - since < QUIET_SECONDS:
            page = scrape(self._configuration.feeder_metrics_address)
            now = page.total(metrics.CAPTURE_BYTES.name) if page else -1.0
            if now != captured:
                captured, since = now, time.monotonic()
            self._road.check_running()
            self.show(0.5)

    def _await_judged(self) -> None:
        """Wait until all blocks that are now in the topic are judged. Raises UserError if nothing moves."""
        self._standstill = Standstill(time.monotonic(), STALLED_SECONDS)
        end = self._backlog.end()
        while end is None or waiting(end, self._backlog.judged()):
            self._road.application.check_running()
            self._show_new_findings(0.5)
            end = end or self._backlog.end()
            self._show_progress(end or {})
            now = time.monotonic()
            if self._standstill.is_over(now):
                stood = f"nothing has moved for {self._standstill.still_for(now):.0f} s"
                raise UserError(f"{stood}: {self._screen.progress_line}")

    def _show_progress(self, end: Offsets) -> None:
        """Show what is captured and judged. `end` is the end of the frames topic, empty if unknown."""
        self._feeder_page = scrape(self._configuration.feeder_metrics_address) or self._feeder_page
        page = scrape(self._configuration.metrics_address)
        judged, event = self._backlog.judged(), last_event(self._road.application.log)
        frames = page.total(metrics.FRAMES.name) if page else 0.0
        now = time.monotonic()
        self._standstill.observe((judged, event, frames), now)
        waits = waiting(end, judged)
        notes = [
            stage(event, frames > 0) or finding_note(bool(self._topic.findings), bool(self.played), waits),
        ]
        if waits:
            notes += [self._standstill.note(now), load_note()]
        self._screen.progress(self._feeder_page, page, waits, [note for note in notes if note])

    def _run_real_clients(self) -> None:
        tls = self._road.tls
        settings = {} if tls is None else tls.librdkafka_settings
        run_workload(self._road.watched, self._screen.say, self._stop, settings)

    def _run_instance_clients(self) -> None:
        self._screen.say("a KIP-1313 client that breaks no rule talks to the front")
        with self._client(CLIENT_ID, HOST) as client:
            converse(client)
        for planted, host in zip(PLANTED, _HOSTS, strict=True):
            if self._stop.is_set():
                return
            self._screen.say(f"planting: {planted.name}")
            with self._client(planted.client_id, host) as client:
                self.played[client.address] = planted
                play(planted, client, self._settle)

    def _client(self, client_id: str, host: str) -> InstanceClient:
        tls = None if self._road.tls is None else self._road.tls.of_clients
        return InstanceClient(
            self._road.schemas, self._road.front_address, client_id, new_instance_id(), host, tls=tls
        )

    def _run_client(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # reported by `play`: a thread's exception would be lost
            self._failures.append(f"{type(error).__name__}: {error}")


def offences_found(
    findings: Sequence[Finding], played: Played, rules: Iterable[Rule] = RULES
) -> list[tuple[PlantedOffence, bool]]:
    """Return each planted offence, and whether its connection violates exactly its rules.

    Only `rules` count, since disabled rules find nothing.
    """
    judged = {rule.id for rule in rules}
    shown: dict[str, set[str]] = {}
    for finding in findings:
        if finding.client in played:
            shown.setdefault(played[finding.client].name, set()).add(finding.rule)
    return [(planted, planted.rules & judged == shown.get(planted.name, set())) for planted in PLANTED]


def unplanted_violations(findings: Sequence[Finding], played: Played) -> list[Finding]:
    return [
        finding
        for finding in findings
        if finding.level == Level.VIOLATION
        and not (finding.client in played and finding.rule in played[finding.client].rules)
    ]


def same_findings(left: Sequence[Finding], right: Sequence[Finding]) -> bool:
    """Whether two sources have equal findings: rule, 4-tuple, occurrences and context of each."""
    return sorted(map(str, (f.likeness() for f in left))) == sorted(map(str, (f.likeness() for f in right)))
