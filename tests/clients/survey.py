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

import msgspec

from streaming.user_error import UserError
from tests.clients.capture_folder import kept_or_scratch
from tests.clients.installing import Command, MissingError, installed
from tests.clients.running import Result, run
from tests.clients.securing import PLAIN, SASL, TLS, Watched, watched
from tests.clients.table import FOLDER, Client, table

RESULTS = FOLDER / "results.jsonl"
Key = tuple[str, str, str, str]


def results() -> list[Result]:
    """The results of the last survey."""
    return [msgspec.json.decode(line, type=Result) for line in RESULTS.read_bytes().splitlines()]


def keep(fresh: Iterable[Result]) -> None:
    """Put results in the place of older ones of the same client, version and broker."""
    known = {_key(result): result for result in results()} if RESULTS.exists() else {}
    known |= {_key(result): result for result in fresh}
    lines = [msgspec.json.encode(known[key]) for key in sorted(known)]
    RESULTS.write_bytes(b"\n".join(lines) + b"\n")


def _key(result: Result) -> Key:
    return result.client, result.version, result.broker, result.security


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
                    keep(done[-1:])
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
