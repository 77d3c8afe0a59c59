"""The form of the tables of requirements. `README.md` describes it."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

import msgspec

from expectations.rules.base.rule import Level, Rule


class Demand(StrEnum):
    """How strongly a source demands what it says, as README.md describes."""

    MUST = "must"
    SHOULD = "should"
    CHOICE = "choice"

    @property
    def highest_level(self) -> Level:
        """The level of an offence against the demand, if it is proven."""
        return _HIGHEST_LEVELS[self]


_HIGHEST_LEVELS = {
    Demand.CHOICE: Level.INFORMATION,
    Demand.SHOULD: Level.IMPROVEMENT,
    Demand.MUST: Level.VIOLATION,
}
"""The levels in the order of their weight, by demand."""
LEVELS = list(_HIGHEST_LEVELS.values())


class Requirement(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One requirement: `says` is the sentence in our own words, `section` its place in the source.

    Exactly one of three says what kipwatch does about it: `rules` holds the ids of the rules that judge it,
    `shown` names what shows it to people, and `not_observable` says why nothing can.
    """

    section: str
    says: str
    demand: Demand = Demand.MUST
    rules: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    not_observable: str = ""


class RequirementTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The requirements of one source: a KIP, what is in no KIP, or the policy of a pack."""

    source: str
    requirement: tuple[Requirement, ...]


def read_table(path: Path) -> RequirementTable:
    """Read a table. Raises msgspec.ValidationError if it is not valid."""
    return msgspec.toml.decode(path.read_bytes(), type=RequirementTable)


def demands_of(rule: Rule, tables: Iterable[RequirementTable]) -> dict[str, set[Demand]]:
    """Return how strongly each source demands what a rule judges."""
    demands: dict[str, set[Demand]] = {}
    for table in tables:
        for requirement in table.requirement:
            if rule.id in requirement.rules:
                demands.setdefault(table.source, set()).add(requirement.demand)
    return demands
