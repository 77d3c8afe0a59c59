"""Bench: what a file of ten thousand owners costs, compared with judging what their clients do.

An owner is looked up for each offence. The dearest case is a new connection of a client that was not looked
up lately: it opens, offends once, and is judged by the automaton as far as possible. In a batch of openings a
hundredth offends. All clients differ, and are more than are remembered.
"""

from __future__ import annotations

import secrets
import time
from typing import Any, Final

from decoders.schema.registry import default_schemas
from expectations.judging.automaton import Automaton
from expectations.judging.judge import Judge
from expectations.judging.terms import ClientNames
from streaming.bench import report
from streaming.bench.storm import opening_microseconds
from streaming.bench.traffic import SOFTWARE_NAME
from streaming.settings.owners import Owner, Owners, owners_of

ENTRIES: Final = 10_000
CLIENTS: Final = 100_000
STEPPED: Final = 4_000
"""Connections whose openings are stepped."""
OFFENDING: Final = 0.01
"""The part of a batch's connections that offends."""
MALFORMED: Final = "apache kafka java"
"""A software name that breaks a rule."""
_TEAMS: Final = 300


def measure(entries: int = ENTRIES, clients: int = CLIENTS, stepped: int = STEPPED) -> dict[str, Any]:
    """Measure; figures are microseconds of a processor for an owner, an opening, and one that offends."""
    owners, judge = owners_of(_listed(entries)), Judge(default_schemas().api_names)
    openings = [
        opening_microseconds(judge, Automaton(judge, secrets.token_bytes()), stepped, name)
        for name in (SOFTWARE_NAME, MALFORMED)
    ]
    owner, (opening, finding) = _owner_microseconds(owners, clients), openings
    batch = OFFENDING * finding + (1 - OFFENDING) * opening
    figures = {
        "entries": float(entries),
        "clients": float(clients),
        "owner_microseconds": owner,
        "opening_microseconds": opening,
        "finding_microseconds": finding,
    }
    return report(
        "owners", figures, {"owner_vs_finding": owner / finding, "owners_vs_batch": OFFENDING * owner / batch}
    )


def _owner_microseconds(owners: Owners, clients: int) -> float:
    """Look up all clients twice, and return the cost of one lookup in the second turn."""
    shown = [
        ClientNames(
            f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}",
            f"service-{number % (2 * ENTRIES)}-{number}",
            SOFTWARE_NAME,
            f"user-{number}",
        )
        for number in range(clients)
    ]
    seconds = 0.0
    for _ in range(2):
        begun = time.process_time()
        for client in shown:
            owners.of(client)
        seconds = time.process_time() - begun
    return seconds / clients * 1e6


def _listed(entries: int) -> list[Owner]:
    """A third each by client ID, by network and by principal."""
    return [_entry(number) for number in range(entries)]


def _entry(number: int) -> Owner:
    name = f"team-{number % _TEAMS}"
    if number % 3 == 0:
        return Owner(name, client_id=f"service-{number}-*")
    if number % 3 == 1:
        return Owner(name, client=f"10.{number >> 8}.{number & 255}.0/24")
    return Owner(name, principal=f"user-{number}")
