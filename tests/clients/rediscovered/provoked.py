"""Plays bugs that provocations bring about, at a current Kafka. Writes provoked.jsonl; names may narrow them.

python -m tests.clients.rediscovered.provoked [NAME …]
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from tests.brokers.survey import Met
from tests.clients.installing import MissingError, installed
from tests.clients.provoked.survey import provoked
from tests.clients.rediscovered.bug import Bug, bugs
from tests.clients.releases import ReleasedBroker
from tests.clients.results_file import ResultsFile, today
from tests.clients.table import table


class ProvokedBug(msgspec.Struct, frozen=True):
    """One version of a bug's program, and what it did upon one provocation."""

    bug: str
    version: str
    provocation: str
    broker: str
    date: str
    met: Met

    @property
    def rules(self) -> set[str]:
        """The rules that were broken."""
        return {found.rule for found in self.met.found}


RESULTS = ResultsFile(
    Path(__file__).parent / "provoked.jsonl",
    ProvokedBug,
    lambda each: (each.bug, each.provocation, each.version),
)


def play(bug: Bug, version: str, broker: ReleasedBroker) -> list[ProvokedBug]:
    """Provoke one version of a bug's program. Raises MissingError if this machine cannot run it."""
    duties = provoked(bug.provoked, broker, installed(bug.as_client(), version), bug.steps)
    return [
        ProvokedBug(bug.name, version, name, broker.release, today(), met) for name, met in duties.items()
    ]


def main() -> None:
    """Play the named bugs, or all that a provocation brings about."""
    with ReleasedBroker(table().brokers[0]) as broker:
        for bug in bugs():
            if not bug.provoked or bug.name not in (sys.argv[1:] or [bug.name]):
                continue
            for version in bug.versions:
                try:
                    seen = play(bug, version, broker)
                except MissingError as missing:
                    print(f"skipped: {bug.name}: {bug.client} {version}: {missing}", flush=True)
                    continue
                RESULTS.keep(seen)
                for each in seen:
                    rules = ", ".join(sorted(each.rules)) or each.met.why
                    print(f"{bug.name} {version}, {each.provocation}: {each.met.state}: {rules}", flush=True)


if __name__ == "__main__":
    main()
