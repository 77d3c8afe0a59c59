"""Probes every broker that can be had here, and writes results.jsonl; names may narrow it.

python -m tests.brokers.survey ["Kafka 4.4.0" …]
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import confluent_kafka
import msgspec

from decoders.schema.registry import default_schemas
from expectations.judging.terms import Terms
from expectations.report.duties import DutyReport
from streaming.broker import child_guard
from streaming.probe.connection import Login, Security, Target, security_of
from streaming.probe.duties import DUTIES
from streaming.probe.probing import Probing
from streaming.settings.address import host_and_port
from tests.clients.securing import PASSWORD, PLAIN, SASL, TLS, USER, watched
from tests.clients.table import table

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results.jsonl"
# The commit of franz-go 1.21.7.
KFAKE = "0.0.0-20260915001422-21ef8a4103bb"

Reached = tuple[str, Security]
"""The address of a broker, and how it is secured."""


class Found(msgspec.Struct, frozen=True):
    """One thing that a rule says of a broker, with the frame that shows it."""

    rule: str
    level: str
    section: str
    message: str
    bytes: str


class Met(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a broker meets one duty."""

    state: str
    why: str = ""
    found: list[Found] = []


class Result(msgspec.Struct, frozen=True):
    """One probe."""

    broker: str
    date: str
    requests: int
    duties: dict[str, Met]


@contextmanager
def _kafka(release: str, security: str) -> Iterator[Reached]:
    with tempfile.TemporaryDirectory() as folder, watched(release, security, Path(folder)) as broker:
        authority = {"security.protocol": "ssl", "ssl.ca.location": broker.environment.get("CLIENT_CA", "")}
        secured = {
            PLAIN: Security(),
            SASL: Security(login=Login("PLAIN", USER, PASSWORD)),
            TLS: security_of(broker.bootstrap, authority) if security == TLS else Security(),
        }
        yield broker.bootstrap, secured[security]


@contextmanager
def _process(*command: str | Path) -> Iterator[Reached]:
    """Start a broker that prints its address."""
    process = child_guard.start(command, subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().decode().strip(), Security()
    finally:
        child_guard.stop(process)


@contextmanager
def _kfake() -> Iterator[Reached]:
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(FOLDER / "kfake" / "main.go", folder)
        for command in (
            "mod init kfake",
            f"get github.com/twmb/franz-go/pkg/kfake@v{KFAKE}",
            "mod tidy",
            "build -o kfake .",
        ):
            subprocess.run(["go", *command.split()], cwd=folder, check=True, capture_output=True)
        with _process(Path(folder) / "kfake") as reached:
            yield reached


_NEWEST = table().brokers[0]
BROKERS: dict[str, Callable[[], AbstractContextManager[Reached]]] = {
    **{f"Kafka {release}": partial(_kafka, release, PLAIN) for release in sorted(table().brokers)},
    f"Kafka {_NEWEST}, login": partial(_kafka, _NEWEST, SASL),
    f"Kafka {_NEWEST}, TLS": partial(_kafka, _NEWEST, TLS),
    f"librdkafka {confluent_kafka.libversion()[0]}, mock": partial(
        _process, sys.executable, FOLDER / "librdkafka_mock.py"
    ),
    f"kfake {KFAKE.split('-')[1][:8]}": _kfake,
}


def results() -> list[Result]:
    """The results of the last survey."""
    return [msgspec.json.decode(line, type=Result) for line in RESULTS.read_bytes().splitlines()]


def probe(broker: str) -> Result:
    """Probe one broker, joining groups, too. One that ends is started again for the next duty."""
    duties: dict[str, Met] = {}
    requests = 0
    while left := [duty for duty in DUTIES if duty.name not in duties]:
        with BROKERS[broker]() as (address, security):
            target = Target(default_schemas(), host_and_port(address), security)
            probing = Probing(target, Terms())
            probing.open()
            for duty in probing.run(left, writes=True):
                duties[duty.duty] = _met(duty)
                if "nobody any more" in duty.why:
                    break
        requests += target.requests
    return Result(broker, datetime.now(UTC).date().isoformat(), requests, duties)


def _met(duty: DutyReport) -> Met:
    first = {finding.rule: finding for finding in reversed(duty.findings)}
    found = [
        Found(rule, one.level, f"{one.kip}, {one.section}", one.message, one.evidence.bytes)
        for rule, one in sorted(first.items())
    ]
    return Met(duty.state, duty.why, found)


def main() -> None:
    """Probe the named brokers, or all."""
    known = {result.broker: result for result in results()} if RESULTS.exists() else {}
    for broker in sys.argv[1:] or BROKERS:
        known[broker] = probe(broker)
        print(broker, {name: met.state for name, met in known[broker].duties.items()}, flush=True)
    lines = [msgspec.json.encode(known[broker]) for broker in BROKERS if broker in known]
    RESULTS.write_bytes(b"\n".join(lines) + b"\n")


if __name__ == "__main__":
    main()
