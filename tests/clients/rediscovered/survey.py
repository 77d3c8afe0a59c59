"""Plays all bugs in their affected and fixed version. Writes results.jsonl; names may narrow the bugs.

python -m tests.clients.rediscovered.survey [--bugs NAME,NAME] [--keep FOLDER]
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from streaming.user_error import UserError
from tests.clients.capture_folder import kept_or_scratch
from tests.clients.installing import Command, MissingError, installed
from tests.clients.rediscovered.attempt import Attempt, attempt, outcome
from tests.clients.rediscovered.bug import Bug, Server, bugs
from tests.clients.rediscovered.serving import serving
from tests.clients.results_file import ResultsFile

RESULTS = ResultsFile(Path(__file__).parent / "results.jsonl", Attempt, lambda each: (each.bug, each.version))


def survey(chosen: Iterable[Bug], folder: Path) -> Iterator[Attempt]:
    """Play bugs; those with an equal server share it. What cannot be had is named and left out."""
    for server, group in itertools.groupby(sorted(chosen, key=_server), key=_server):
        commands = list(_installed(group))
        if commands:
            try:
                yield from _played(commands, folder)
            except UserError as error:
                print(f"skipped: {server}: {error}", flush=True)


def _server(bug: Bug) -> str:
    return msgspec.json.encode(bug.server).decode()


def _installed(group: Iterable[Bug]) -> Iterator[tuple[Bug, str, Command]]:
    for bug in group:
        for version in bug.versions:
            try:
                yield bug, version, installed(bug.as_client(), version)
            except MissingError as missing:
                print(f"skipped: {bug.name}: {bug.client} {version}: {missing}", flush=True)


def _played(commands: Iterable[tuple[Bug, str, Command]], folder: Path) -> Iterator[Attempt]:
    commands = list(commands)
    server: Server = commands[0][0].server
    with serving(server) as port:
        for bug, version, command in commands:
            yield attempt(bug, version, command, port, folder / f"{bug.name}-{version}.pcap")


def line(each: Attempt) -> str:
    """One line of what was seen."""
    findings = [f"{found.level} {found.rule} x{found.count}" for found in each.findings]
    failed = f" FAILED: {each.failed}" if each.failed else ""
    return f"{each.bug} {each.version}: {each.frames} frames; {', '.join(findings) or 'no finding'}{failed}"


def main() -> int:
    """Run the survey. Returns 1 if a bug is found where it was fixed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bugs", default=",".join(bug.name for bug in bugs()))
    parser.add_argument("--keep", type=Path, help="a folder for the captures")
    arguments = parser.parse_args()
    chosen = [bug for bug in bugs() if bug.name in arguments.bugs.split(",")]
    with kept_or_scratch(arguments.keep) as folder:
        for each in survey(chosen, folder):
            print(line(each), flush=True)
            RESULTS.keep([each])
    outcomes = {bug.name: outcome(bug, RESULTS.read()) for bug in chosen}
    print(*(f"{name}: {seen}" for name, seen in outcomes.items()), sep="\n")
    return 1 if "false" in outcomes.values() else 0


if __name__ == "__main__":
    sys.exit(main())
