"""Reads the requirements: what the five KIPs demand, and which rules judge it.

`expectations/requirements/README.md` describes the tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from expectations.report.client import Client, VersionUse
from expectations.report.upgrade import UpgradedClient, UpgradeRow
from expectations.report.versions import FeatureUse
from expectations.requirements.table import Demand, RequirementTable, demands_of, read_table
from expectations.rules.base.rule import Rule
from streaming.metrics.definitions import METRICS
from streaming.transcript.frame import DecodedFrame
from tests.repository.tree import ROOT

_REPORTED = {kind.__name__: kind for kind in (Client, VersionUse, FeatureUse, UpgradedClient, UpgradeRow)}
"""What the fleet report and the report of an upgrade are made of, by name."""
FOLDER: Path = ROOT / "expectations" / "requirements"
SHIPPED = "shipped"
"""The source of requirements that are in no KIP."""


def tables() -> Iterator[RequirementTable]:
    """Read all tables. Raises msgspec.ValidationError if one is not valid."""
    for path in sorted(FOLDER.glob("*.toml")):
        yield read_table(path)


def sources_of(rule: str) -> set[str]:
    """Return the sources of the requirements that a rule judges."""
    return {
        table.source for table in tables() for requirement in table.requirement if rule in requirement.rules
    }


def demands_on(rule: Rule) -> set[Demand]:
    """Return how strongly the rule's KIP demands what the rule judges, or released Kafka if no KIP does."""
    demands = demands_of(rule, tables())
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
