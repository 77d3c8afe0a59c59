"""Plays old clients before and after an upgrade, and asks kipwatch in between. Writes results.jsonl.

python -m tests.clients.upgrading.proof [--clients NAME,NAME] [--keep FOLDER]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from expectations.report.upgrade import UpgradedClient
from tests.captures.recording import captured
from tests.clients.capture_folder import kept_or_scratch
from tests.clients.installing import Command, MissingError, installed
from tests.clients.releases import ReleasedBroker
from tests.clients.results_file import ResultsFile, today
from tests.clients.running import new_topic, play
from tests.clients.table import Client

HERE = Path(__file__).parent
BEFORE, AFTER = "3.9.1", "4.4.0"
RECORDS = 10
"""What a client reads; more may be there."""
PATIENCE = 30.0


class Prediction(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step of one client: what kipwatch predicted of it at BEFORE, and what happened at AFTER.

    `refused` are the requests that the report names as removed, `breaks` is its verdict. `failed_before` and
    `failed_after` are the last lines that the program printed if its status was not 0.
    """

    client: str
    version: str
    step: str
    date: str
    requests: int
    refused: list[str] = []
    breaks: bool = False
    failed_before: str = ""
    failed_after: str = ""

    @property
    def is_right(self) -> bool:
        """Whether it worked before, and broke as predicted."""
        return not self.failed_before and self.breaks == bool(self.failed_after)


class _Clients(msgspec.Struct):
    client: tuple[Client, ...]


class _Upgrade(msgspec.Struct):
    upgrade_clients: list[UpgradedClient]


class Part(NamedTuple):
    """A step of a version of a client, and how its program is started."""

    client: str
    version: str
    step: str
    command: Command

    @property
    def name(self) -> str:
        """Its name for people."""
        return f"{self.client} {self.version} {self.step}"


def clients() -> tuple[Client, ...]:
    """Read the table of old clients."""
    return msgspec.toml.decode((HERE / "clients.toml").read_bytes(), type=_Clients).client


RESULTS = ResultsFile(HERE / "results.jsonl", Prediction, lambda each: (each.client, each.version, each.step))


def prove(parts: Iterable[Part], folder: Path) -> list[Prediction]:
    """Play parts at both releases. Captures are kept in a folder."""
    with ReleasedBroker(BEFORE) as broker:
        before = [(part, _before(part, broker, folder)) for part in parts]
    done = []
    with ReleasedBroker(AFTER) as broker:
        for part, predicted in before:
            failed = play(_started(part, broker), folder / f"{part.name.replace(' ', '-')}.after")
            done.append(msgspec.structs.replace(predicted, failed_after=failed))
            print(line(done[-1]), flush=True)
    return done


def _before(part: Part, broker: ReleasedBroker, folder: Path) -> Prediction:
    capture = folder / f"{part.name.replace(' ', '-')}.pcap"
    command = _started(part, broker)
    with captured(broker.ports.watched, capture):
        failed = play(command, capture.with_suffix(".before"))
    clients = report(capture, broker.ports.watched)
    return Prediction(
        client=part.client,
        version=part.version,
        step=part.step,
        date=today(),
        requests=sum(client.requests for client in clients),
        refused=sorted({f"{row.api} v{row.version}" for each in clients for row in each.rows if row.breaks}),
        breaks=any(client.breaks for client in clients),
        failed_before=failed,
    )


def report(capture: Path, port: int) -> list[UpgradedClient]:
    """Ask `kipwatch report` what the upgrade means for the clients of a capture."""
    command = [sys.executable, "-m", "kipwatch", "report", "--json", "--upgrade-to", AFTER]
    done = subprocess.run([*command, "--ports", str(port), capture], capture_output=True, check=False)
    found = msgspec.json.decode(done.stdout, type=_Upgrade).upgrade_clients
    assert done.returncode == int(any(client.breaks for client in found)), done.stderr
    return found


def _started(part: Part, broker: ReleasedBroker) -> Command:
    """Make a topic with records, and return the command of the part."""
    topic = new_topic()
    admin = AdminClient({"bootstrap.servers": broker.internal})
    for created in admin.create_topics([NewTopic(topic, 1, 1)]).values():
        created.result(PATIENCE)
    producer = Producer({"bootstrap.servers": broker.internal})
    for number in range(RECORDS):
        producer.produce(topic, f"record {number}")
    assert producer.flush(PATIENCE) == 0
    return [*part.command, broker.watched, topic, part.step]


def installed_parts(chosen: Iterable[Client]) -> Iterator[Part]:
    """Install clients; what cannot be had is named and left out."""
    for client in chosen:
        for version in client.versions:
            try:
                command = installed(client, version)
            except MissingError as missing:
                print(f"skipped: {client.name} {version}: {missing}", flush=True)
                continue
            yield from (Part(client.name, version, step, command) for step in client.steps)


def line(each: Prediction) -> str:
    """One line of what was seen."""
    predicted = f"breaks by {', '.join(each.refused)}" if each.breaks else "goes on"
    happened = f"failed: {each.failed_after}" if each.failed_after else "worked"
    before = f"FAILED BEFORE: {each.failed_before}; " if each.failed_before else ""
    sign = "" if each.is_right else "WRONG "
    return f"{sign}{each.client} {each.version} {each.step}: {before}{predicted}; {happened}"


def main() -> int:
    """Prove it. Returns 1 if anything was predicted wrongly."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", default=",".join(client.folder for client in clients()))
    parser.add_argument("--keep", type=Path, help="a folder for the captures")
    arguments = parser.parse_args()
    chosen = [client for client in clients() if client.folder in arguments.clients.split(",")]
    with kept_or_scratch(arguments.keep) as folder:
        done = prove(list(installed_parts(chosen)), folder)
    RESULTS.keep(done)
    return 0 if all(each.is_right for each in done) else 1


if __name__ == "__main__":
    sys.exit(main())
