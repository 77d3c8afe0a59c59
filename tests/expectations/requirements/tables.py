"""Reads the requirements: what the five KIPs demand, and which rules judge it.

`expectations/requirements/README.md` describes the tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from tests.repository.tree import ROOT

FOLDER: Path = ROOT / "expectations" / "requirements"
SHIPPED = "shipped"
"""The source of requirements that are in no KIP."""


class Requirement(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One requirement: `says` is the sentence in our own words, `section` its place in the source.

    Either `rules` holds the ids of the rules that judge it, or `not_observable` the reason why none does.
    """

    section: str
    says: str
    rules: tuple[str, ...] = ()
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
