"""A running query takes over changed decisions on SIGHUP, and refuses invalid ones."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from expectations.judging.finding import Finding
from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.topics import FindingsTopic
from streaming.demo.road import Child
from tests.e2e.feeding import feed_capture
from tests.e2e.free_pages import free_pages
from tests.e2e.process_tree import children
from tests.streaming.captures import violating, write_capture

pytestmark = [pytest.mark.jvm, pytest.mark.e2e, pytest.mark.timeout(600)]

PATIENCE = 150.0
RULE = "kip511/software-name-malformed"
INVALID = 'disable = ["kip511/nonsense"]'
CHANGED = f"""
trigger_seconds = 2
levels = {{"{RULE}" = "information"}}

[[suppress]]
rule = "kip511/*"
client = "10.0.0.0/8"
reason = "renamed in June"
until = 2999-01-01
"""


class Running:
    """A broker, a query with a configuration file, and what it finds."""

    def __init__(self, folder: Path, broker: EmbeddedBroker) -> None:
        self.config = folder / "kipwatch.toml"
        self.config.write_text("")
        self._folder, self._kafka = folder, ["--bootstrap", broker.internal]
        (application,) = free_pages(1)
        command = ["run", *self._kafka, "--config", str(self.config), "--metrics-address", application]
        command += ["--checkpoint", str(folder / "checkpoint"), "--buckets", "4"]
        self.query = Child(command, folder / "run.log")
        self.query.wait_for('"query": "started"', PATIENCE)
        self._topic = FindingsTopic(broker.internal, "kipwatch.findings")

    def close(self) -> None:
        self._topic.close()
        self.query.stop()

    def finding(self, software: str) -> Finding:
        """Feed a capture of one connection of a malformed software name, and return its finding of RULE."""
        path = write_capture(self._folder / f"{software}.pcap", violating(software))
        feed_capture(path, self._folder / f"{software}.log", *self._kafka, "--ports", "9092")
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            self._topic.poll(1.0)
            for finding in self._topic.findings.values():
                if finding.rule == RULE and finding.client_software_name == software:
                    return finding
        raise AssertionError(self.query.log.read_text())

    def reload(self, text: str) -> None:
        """Change the configuration and send SIGHUP to the query, whose guard is its parent."""
        self.config.write_text(text)
        (process,) = children(self.query.process_id)
        os.kill(process, signal.SIGHUP)

    def await_starts(self, count: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while self.query.log.read_text().count('"query": "started"') < count:
            self.query.check_running()
            assert time.monotonic() < deadline
            time.sleep(0.2)


def test_changed_decisions_are_taken_over_and_invalid_ones_refused(tmp_path: Path) -> None:
    with EmbeddedBroker() as broker:
        running = Running(tmp_path, broker)
        try:
            assert not running.finding("the first").suppressed
            running.reload(INVALID)
            running.query.wait_for('"query": "decisions-refused"', PATIENCE)
            running.reload(CHANGED)
            running.query.wait_for('"query": "decisions-reloaded"', PATIENCE)
            running.await_starts(2)
            found = running.finding("the second")
        finally:
            running.close()
    assert found.level == "information"
    assert found.suppressed and found.suppressed.reason == "renamed in June"
    log = running.query.log.read_text()
    assert "the configuration names a rule 'kip511/nonsense'" in log
    assert '"changed": true, "needs_restart": ["trigger_seconds"]' in log
