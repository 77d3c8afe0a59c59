"""The demo: the whole road on real traffic, from start to verdict."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from expectations.judging.finding import Finding
from expectations.report.coverage import Coverage, coverage_of
from streaming.broker.ports import HOST
from streaming.check.examination import examine
from streaming.demo.findings_topic import FindingsTopic
from streaming.demo.instance_client import InstanceClient, new_instance_id
from streaming.demo.offences import CLIENT_ID, PLANTED, Planted, play
from streaming.demo.page import MetricsPage, scrape
from streaming.demo.road import Road
from streaming.demo.scenario import converse
from streaming.demo.screen import Screen
from streaming.demo.verdict import found_of, same_findings, violations_beside
from streaming.demo.workload import run_workload
from streaming.metrics import definitions as metrics
from streaming.settings.configuration import Configuration
from streaming.settings.decisions import Decisions
from streaming.user_error import UserError

SETTLE_CAPTURED = 1.5
SETTLE_RELAYED = 5.5
"""Seconds until a client has surely read an answer: from packets one, from a relay five, and some more."""
DRAIN_SECONDS = 60.0
QUIET_SECONDS = 3.0
AUDITED_RECORDS = 10_000
_HOSTS = [f"127.0.1.{number}" for number in range(1, len(PLANTED) + 1)]
"""An address for each planted offence: the kernel gives a port out again within seconds, to any client."""


class Demo:
    """One run of the demo on a road that stands."""

    def __init__(self, road: Road, configuration: Configuration, screen: Screen, captured: bool) -> None:
        self._road, self._configuration, self._screen = road, configuration, screen
        self._terms = Decisions(configuration).terms
        self._settle = SETTLE_CAPTURED if captured else SETTLE_RELAYED
        self._topic = FindingsTopic(road.internal, configuration.findings_topic)
        self._stop = threading.Event()
        self._failures: list[str] = []
        self.played: dict[str, Planted] = {}

    def play(self, seconds: float) -> None:
        """Run all clients, showing what is found meanwhile, for at most so long. Raises UserError."""
        deadline = time.monotonic() + seconds
        clients = [
            threading.Thread(target=self._guard, args=(work,), daemon=True)
            for work in (self._run_real_clients, self._run_instance_clients)
        ]
        for client in clients:
            client.start()
        while any(client.is_alive() for client in clients):
            if time.monotonic() > deadline:
                self._stop.set()
            self.show(1.0)
            self._road.demand_life()
        if self._failures:
            raise UserError(f"a client of the demo failed: {self._failures[0]}")

    def show(self, seconds: float) -> None:
        """Show what is new, waiting at most so long for it."""
        for finding in self._topic.poll(seconds):
            self._screen.finding(finding)
        addresses = (self._configuration.feeder_metrics_address, self._configuration.metrics_address)
        self._screen.counts(*map(scrape, addresses))

    def drain(self, keep: bool = False) -> None:
        """Let the feeder finish and the query judge everything. Raises UserError when it takes too long.

        With `keep` the feeder goes on; it is taken to have finished once it captures nothing new.
        """
        self._screen.say("all clients are done; waiting until the query has judged everything")
        if keep:
            self._await_quiet()
        else:
            self._road.end_feeding()
        ended = time.time()
        deadline = time.monotonic() + DRAIN_SECONDS
        while not self._is_drained(ended):
            if time.monotonic() > deadline:
                raise UserError(f"the query did not catch up in {DRAIN_SECONDS:.0f} s")
            self._road.application.demand_life()
            self.show(0.5)
        self.show(2.0)

    def findings(self) -> list[Finding]:
        """Give what was found, the latest of each."""
        return sorted(self._topic.findings.values(), key=lambda finding: finding.first_captured_at)

    def coverage(self) -> list[Coverage]:
        """Read the coverage of every rule off the metrics page."""
        checks = self.page().by(metrics.RULE_CHECKS.name, "rule", "verdict")
        counts = {(rule, verdict): int(count) for (rule, verdict), count in checks.items()}
        return coverage_of(counts, self._terms.rules)

    def page(self) -> MetricsPage:
        """Read the application's metrics page. Raises UserError when it does not answer."""
        page = scrape(self._configuration.metrics_address)
        if page is None:
            raise UserError(f"nobody answers at {self._configuration.metrics_address}/metrics")
        return page

    def conclude(self) -> bool:
        """Show the tables and tell whether all that was planted was found, and nothing else violated."""
        from streaming.audit.audit import audit, audit_table  # noqa: PLC0415  # takes seconds to load

        findings = self.findings()
        planted = found_of(findings, self.played, self._terms.rules)
        self._screen.tables(findings, self.coverage(), planted)
        audited = audit(self._road.internal, self._configuration.frames_topic, AUDITED_RECORDS)
        self._screen.part("Audit of the frames topic", audit_table(audited))
        checked = self._check_recording(findings)
        same = "the same findings" if checked else "OTHER findings"
        self._screen.say(f"`kipwatch check` on the recorded capture: {same}")
        unplanted = violations_beside(findings, self.played)
        for finding in unplanted:
            self._screen.say(f"not planted: {finding.rule} on {finding.client}: {finding.message}")
        succeeded = all(found for _, found in planted) and not unplanted and audited.success and checked
        self._screen.verdict(succeeded, sum(found for _, found in planted), len(planted))
        return succeeded

    def close(self) -> None:
        """Leave the findings topic."""
        self._stop.set()
        self._topic.close()

    def _check_recording(self, findings: Sequence[Finding]) -> bool:
        examination = examine(self._road.recording, self._road.schemas, terms=self._terms)
        return same_findings(findings, examination.findings)

    def _await_quiet(self) -> None:
        captured, since = -1.0, time.monotonic()
        while time.monotonic() - since < QUIET_SECONDS:
            page = scrape(self._configuration.feeder_metrics_address)
            now = page.total(metrics.CAPTURE_BYTES.name) if page else -1.0
            if now != captured:
                captured, since = now, time.monotonic()
            self._road.demand_life()
            self.show(0.5)

    def _is_drained(self, ended: float) -> bool:
        page = scrape(self._configuration.metrics_address)
        if page is None:
            return False
        batch = page.total(metrics.LAST_BATCH_TIMESTAMP.name)
        return batch > ended + 1 and page.total(metrics.TOPIC_LAG.name) == 0

    def _run_real_clients(self) -> None:
        run_workload(self._road.watched, self._screen.say, self._stop)

    def _run_instance_clients(self) -> None:
        self._screen.say("a KIP-1313 client converses with the front, by the book")
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
        return InstanceClient(
            self._road.schemas, self._road.front_address, client_id, new_instance_id(), host
        )

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # a client's thread must not die unheard
            self._failures.append(f"{type(error).__name__}: {error}")
