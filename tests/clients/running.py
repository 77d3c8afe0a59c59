"""Runs one client at one broker: capture, comparison with the broker's log, verdict."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from types import MappingProxyType

import msgspec

from decoders.schema.registry import default_schemas
from expectations.judging.finding import Finding
from streaming.check.examination import Examination, examine
from tests.captures.recording import captured
from tests.clients.comparison import Comparison, compare
from tests.clients.installing import Command
from tests.clients.results_file import today
from tests.clients.securing import Watched
from tests.streaming.broker.request_log import read_request_log

PATIENCE = 150.0
"""Seconds for a program to play its steps."""
FEW = 5
"""How many bodies that differ are kept as examples."""
LOGGED_WITHIN = 20.0
"""Seconds until the broker has logged what it served."""


class Found(msgspec.Struct, frozen=True):
    """What one rule found: how often, and the first of its findings as an example."""

    rule: str
    level: str
    count: int
    message: str
    observed: str
    bytes: str


class Result(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One run. `failed` is the last line that the program printed, if its status was not 0.

    `checks` has for each rule that judged anything: conforms, violates, undecided. `equal` counts requests
    that the capture and the broker's log both have, `differing` those that only one of them has. `bodies`
    counts bodies of requests and responses that are equal in both, `other_bodies` shows some that are not.
    """

    client: str
    version: str
    broker: str
    security: str = ""
    date: str
    steps: list[str]
    frames: int
    connections: int
    equal: int
    differing: int
    unanswered: int
    bodies: int = 0
    other_bodies: list[str] = []
    findings: list[Found] = []
    checks: dict[str, tuple[int, int, int]] = {}
    undecodable: dict[str, int] = {}
    failed: str = ""

    @property
    def violations(self) -> set[str]:
        """The rules that were violated."""
        return {found.rule for found in self.findings if found.level == "violation"}


def run(
    command: Command, watched: Watched, capture: Path, steps: Sequence[str], named: tuple[str, str]
) -> Result:
    """Let a program play its steps while its traffic is captured. `named` is the client and its version."""
    log, port = watched.broker.request_log, watched.port
    # A fetch of the client before may be logged only now.
    earlier = {line.connection for line in read_request_log(log)}
    with captured(port, capture):
        program = [*command, watched.bootstrap, new_topic(), *steps]
        failed = play(program, capture.with_suffix(".output"), watched.environment)
    compared = _compared(capture, watched, earlier)
    examination = examine(capture, default_schemas(), [port], key_logs=watched.key_logs)
    client, version = named
    return Result(
        client=client,
        version=version,
        broker=watched.broker.release,
        security=watched.security,
        date=today(),
        steps=list(steps),
        frames=examination.frames,
        connections=examination.connections,
        equal=compared.equal,
        differing=compared.unseen.total() + compared.unlogged.total(),
        unanswered=compared.unanswered,
        bodies=compared.bodies.requests + compared.bodies.responses,
        other_bodies=compared.bodies.other[:FEW],
        findings=found_in(examination.findings),
        checks=_checks(examination),
        undecodable=examination.undecodable,
        failed=failed,
    )


def new_topic() -> str:
    """A name that no topic has."""
    return f"t{uuid.uuid4().hex[:8]}"


def _compared(capture: Path, watched: Watched, earlier: Set[str]) -> Comparison:
    """Compare with the log's lines of other than the earlier connections; a busy broker writes them late."""
    deadline = time.monotonic() + LOGGED_WITHIN
    while True:
        lines = read_request_log(watched.broker.request_log)
        compared = compare(capture, watched, [line for line in lines if line.connection not in earlier])
        if not compared.unlogged or time.monotonic() > deadline:
            return compared
        time.sleep(1.0)


def play(
    command: Command,
    output: Path,
    environment: Mapping[str, str] = MappingProxyType({}),
    patience: float = PATIENCE,
) -> str:
    """Run a program to its end, or to the end of patience. Returns why it failed, "" if it did not."""
    whole = {**os.environ, **environment}
    with output.open("wb") as printed:
        process = subprocess.Popen(
            command, stdout=printed, stderr=subprocess.STDOUT, start_new_session=True, env=whole
        )
        deadline = time.monotonic() + patience
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return f"it did not end within {patience:.0f} s"
    if process.returncode == 0:
        return ""
    lines = [line for line in output.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip()[:200] if lines else f"status {process.returncode}"


def found_in(findings: Sequence[Finding]) -> list[Found]:
    """Count findings by rule."""
    counts = Counter(finding.rule for finding in findings)
    firsts = {finding.rule: finding for finding in reversed(findings)}
    return [
        Found(rule, first.level, counts[rule], first.message, first.observed, first.evidence.bytes[:96])
        for rule, first in sorted(firsts.items())
    ]


def _checks(examination: Examination) -> dict[str, tuple[int, int, int]]:
    return {
        each.rule: (each.conforms, each.violates, each.undecided)
        for each in examination.coverage
        if each.conforms + each.violates + each.undecided
    }
