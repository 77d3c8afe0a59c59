"""`make clients`: every client of the table at every broker. Writes results.jsonl; names may narrow both.

python -m tests.clients.survey [--brokers 4.4.0,3.9.1] [--clients sarama,franz_go] [--keep FOLDER]
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from streaming.user_error import UserError
from tests.clients.capture_folder import kept_or_scratch
from tests.clients.installing import Command, MissingError, installed
from tests.clients.results_file import ResultsFile
from tests.clients.running import Result, run
from tests.clients.securing import PLAIN, SASL, TLS, Watched, watched
from tests.clients.table import FOLDER, Client, table

RESULTS = ResultsFile(
    FOLDER / "results.jsonl", Result, lambda each: (each.client, each.version, each.broker, each.security)
)


def survey(brokers: Iterable[str], clients: Iterable[str], folder: Path) -> list[Result]:
    """Run clients, named by their folders, at brokers. What cannot be had is named and left out."""
    programs: list[Program] = []
    for client, version in table().runs():
        if client.folder in clients:
            try:
                programs.append(Program(client, version, installed(client, version)))
            except MissingError as missing:
                print(f"skipped: {client.name} {version}: {missing}", flush=True)
    done = []
    for release, security in itertools.product(brokers, (PLAIN, SASL, TLS)):
        chosen = programs if security == PLAIN else [one for one in programs if one.is_secured_at(release)]
        if not chosen:
            continue
        try:
            with watched(release, security, folder) as broker:
                for program in chosen:
                    done.append(_run(program, broker, folder))
                    print(_line(done[-1]), flush=True)
                    RESULTS.keep(done[-1:])
        except UserError as error:
            print(f"skipped: broker {release}: {error}", flush=True)
    return done


class Program(NamedTuple):
    """An installed client."""

    client: Client
    version: str
    command: Command

    def is_secured_at(self, release: str) -> bool:
        """Whether it also logs in and speaks TLS: the newest version, at the newest broker."""
        is_newest = self.version == self.client.versions[-1] and release == table().brokers[0]
        return self.client.secured and is_newest


def _run(program: Program, broker: Watched, folder: Path) -> Result:
    client, version, command = program
    release = broker.broker.release
    words = [client.folder, version, release, *broker.security.split("/")[:1]]
    capture = folder / f"{'-'.join(filter(None, words))}.pcap"
    return run(command, broker, capture, client.steps_of(version, release), (client.name, version))


def _line(result: Result) -> str:
    findings = [f"{found.level} {found.rule} x{found.count}" for found in result.findings]
    compared = f"{result.equal} requests as logged, {result.differing} not"
    failed = f" FAILED: {result.failed}" if result.failed else ""
    name = " ".join(filter(None, (result.client, result.version, "at", result.broker, result.security)))
    return f"{name}: {result.frames} frames, {compared}; {', '.join(findings) or 'no finding'}{failed}"


def main() -> int:
    """Run the survey. Returns 1 if a request differs from the broker's log."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", default=",".join(table().brokers))
    parser.add_argument("--clients", default=",".join(client.folder for client in table().client))
    parser.add_argument("--keep", type=Path, help="a folder for the captures")
    arguments = parser.parse_args()
    with kept_or_scratch(arguments.keep) as folder:
        done = survey(arguments.brokers.split(","), arguments.clients.split(","), folder)
    return 1 if any(result.differing for result in done) else 0


if __name__ == "__main__":
    sys.exit(main())
