"""Provokes the newest version of each client, and writes results.jsonl; names may narrow it.

python -m tests.clients.provoked.survey [confluent_kafka kafka_python …]
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from streaming.record.provocations import PROVOCATIONS
from tests.brokers.survey import Found, Met
from tests.clients.installing import Command, MissingError, installed
from tests.clients.releases import ReleasedBroker
from tests.clients.results_file import ResultsFile, today
from tests.clients.running import new_topic
from tests.clients.table import Client, table

FOLDER = Path(__file__).parent
STEPS = ("administer", "produce", "consume", "consume-848")
"""What a client does while it is provoked, as far as it can."""
PATIENCE = 45
"""Seconds after which a client that does not get on is ended."""


class Provoked(msgspec.Struct, frozen=True):
    """One client, and what it did upon each provocation."""

    client: str
    version: str
    broker: str
    date: str
    duties: dict[str, Met]


PLACES = {client.name: place for place, client in enumerate(table().client)}
RESULTS = ResultsFile(FOLDER / "results.jsonl", Provoked, lambda each: PLACES[each.client])


def provoke(client: Client, version: str, broker: ReleasedBroker) -> Provoked:
    """Let one client be provoked. Raises MissingError if this machine cannot run it."""
    steps = [step for step in client.steps_of(version, broker.release) if step in STEPS]
    names = [each.name for each in PROVOCATIONS]
    duties = provoked(names, broker, installed(client, version), steps)
    return Provoked(client.name, version, broker.release, today(), duties)


def provoked(
    names: Iterable[str], broker: ReleasedBroker, command: Command, steps: Sequence[str]
) -> dict[str, Met]:
    """Let a program play its steps, each time with a topic of its own, and return how it met each duty."""
    return {name: _provoked(name, broker, command, steps) for name in names}


def _provoked(name: str, broker: ReleasedBroker, command: Command, steps: Sequence[str]) -> Met:
    topic = new_topic()
    record = (sys.executable, "-m", "kipwatch", "record", "--bootstrap", broker.watched, "--provoke", name)
    program = ("timeout", str(PATIENCE), *command, "{bootstrap}", topic, *steps)
    with tempfile.TemporaryDirectory() as folder:
        told = subprocess.run(
            [*record, "--save", f"{folder}/run.pcap", "--json", "--", *program],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
        ).stdout
    [duty] = json.loads(told.splitlines()[-1])["duties"]
    return _met(duty)


def _met(duty: dict[str, object]) -> Met:
    findings = msgspec.convert(duty["findings"], list[dict[str, object]])
    first = {finding["rule"]: finding for finding in reversed(findings)}
    found = [
        Found(
            str(rule),
            str(one["level"]),
            f"{one['kip']}, {one['section']}",
            str(one["message"]),
            msgspec.convert(one["evidence"], dict[str, Any])["bytes"],
        )
        for rule, one in sorted(first.items(), key=lambda item: str(item[0]))
        if rule in msgspec.convert(duty["rules"], list[str]) or one["level"] == "violation"
    ]
    return Met(str(duty["state"]), str(duty["why"]), found)


def main() -> None:
    """Provoke the named clients, or all, in their newest versions."""
    with ReleasedBroker(table().brokers[0]) as broker:
        for client in table().client:
            if client.folder not in (sys.argv[1:] or [client.folder]):
                continue
            try:
                result = provoke(client, client.versions[-1], broker)
            except MissingError as missing:
                print(f"skipped: {client.name}: {missing}", flush=True)
                continue
            print(client.name, {name: met.state for name, met in result.duties.items()}, flush=True)
            RESULTS.keep([result])


if __name__ == "__main__":
    main()
