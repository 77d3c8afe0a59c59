"""Reads the requirements: what the five KIPs demand, and which rules judge it.

`expectations/requirements/README.md` describes the tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import msgspec

from expectations.report.client import Client, VersionUse
from expectations.report.upgrade import UpgradedClient, UpgradeRow
from expectations.report.versions import FeatureUse
from expectations.rules.base.rule import Level, Rule
from streaming.metrics.definitions import METRICS
from streaming.transcript.frame import DecodedFrame
from tests.repository.tree import ROOT

_REPORTED = {kind.__name__: kind for kind in (Client, VersionUse, FeatureUse, UpgradedClient, UpgradeRow)}
"""What the fleet report and the report of an upgrade are made of, by name."""
FOLDER: Path = ROOT / "expectations" / "requirements"
SHIPPED = "shipped"
"""The source of requirements that are in no KIP."""


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
    `shown` names what shows it to people (see `is_shown`), and `not_observable` says why nothing can.
    """

    section: str
    says: str
    demand: Demand = Demand.MUST
    rules: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    not_observable: str = ""


class RequirementTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The requirements of one source: a KIP, or SHIPPED."""

    source: str
    requirement: tuple[Requirement, ...]


def tables() -> Iterator[RequirementTable]:
    """Read all tables. Raises msgspec.ValidationError if one is not valid."""
    for path in sorted(FOLDER.glob("*.toml")):
        yield msgspec.toml.decode(path.read_bytes(), type=RequirementTable)


def sources_of(rule: str) -> set[str]:
    """Return the sources of the requirements that a rule judges."""
    return {
        table.source for table in tables() for requirement in table.requirement if rule in requirement.rules
    }


def demands_on(rule: type[Rule]) -> set[Demand]:
    """Return how strongly the rule's KIP demands what the rule judges, or released Kafka if no KIP does."""
    demands: dict[str, set[Demand]] = {}
    for table in tables():
        for requirement in table.requirement:
            if rule.id in requirement.rules:
                demands.setdefault(table.source, set()).add(requirement.demand)
    return demands.get(rule.kip) or demands[SHIPPED]


def is_shown(name: str) -> bool:
    """Whether what a requirement names as `shown` exists.

    `metric NAME` is a metric, `report TYPE.FIELD` a field of the fleet report, `decode KEY` a key of the
    lines that `kipwatch decode` prints.
    """
    kind, _, place = name.partition(" ")
    if kind == "metric":
        return any(metric.name == place for metric in METRICS)
    if kind == "decode":
        return place in DecodedFrame.__struct_fields__
    owner, _, field = place.partition(".")
    return kind == "report" and field in getattr(_REPORTED.get(owner), "__struct_fields__", ())
