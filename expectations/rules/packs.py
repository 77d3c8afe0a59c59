"""Rule packs: rules of others, in packages of their own that kipwatch finds by entry point.

    kipwatch_acme/__init__.py          RUNBOOK, the address of the pages of its rules
    kipwatch_acme/team_unknown.py      the rule acme/team-unknown; a file that begins with `_` is none
    kipwatch_acme/requirements.toml    what the rules judge
    kipwatch_acme/cases/*.md           a page of cases for each rule

The entry point `acme` of the group `kipwatch.rules` names the package. A pack of which a rule cannot be
imported, or has not the form of one, is refused as a whole, in one line: judging goes on without it.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Collection, Iterator
from importlib.metadata import Distribution, EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Final, NamedTuple

from expectations.rules.base.form import faults
from expectations.rules.base.rule import PACK, Rule

GROUP: Final = "kipwatch.rules"
"""The group of entry points that name packs."""
PREFIX: Final = re.compile(r"[a-z][a-z0-9]*")
_OURS: Final = re.compile(r"kip\d*|wire")
"""The first parts of IDs that no pack may have."""
_LONGEST_REASON: Final = 300


class Pack(NamedTuple):
    """The first part of the IDs of a pack's rules, its package, folder and rules, and how it is installed."""

    prefix: str
    package: str
    folder: Path
    rules: tuple[Rule, ...]
    distribution: Distribution | None


class PackError(Exception):
    """A pack is none. The message is one line."""


def load_packs() -> tuple[list[Pack], dict[str, str]]:
    """Load all packs. Returns those that are, and of the others why they are not, by package."""
    packs: dict[str, Pack] = {}
    refused: dict[str, str] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        try:
            packs[point.name] = _loaded(point, packs)
        except PackError as error:
            refused[point.value] = str(error)[:_LONGEST_REASON]
    return list(packs.values()), refused


def _loaded(point: EntryPoint, taken: Collection[str]) -> Pack:
    prefix, package = point.name, f"{PACK}{point.name}"
    if _OURS.fullmatch(prefix) or prefix in taken:
        raise PackError(f"its name {prefix!r} is taken; choose another for entry point and package")
    if not PREFIX.fullmatch(prefix) or point.value != package:
        raise PackError(f"its entry point must read `NAME = {PACK}NAME`, with lower-case letters and digits")
    module = _imported(package)
    runbook = getattr(module, "RUNBOOK", None)
    if not isinstance(runbook, str) or not runbook:
        raise PackError("its package does not say RUNBOOK, the address of its rules' pages")
    rules = tuple(rules_in(module))
    if not rules:
        raise PackError("it has no rule")
    for rule in rules:
        for fault in faults(rule):
            raise PackError(f"{rule.id} {fault}")
        type(rule).runbook = runbook
    return Pack(prefix, package, Path(module.__path__[0]), rules, point.dist)


def rules_in(package: ModuleType) -> Iterator[Rule]:
    """Yield the rule of each module of a package. A module whose name begins with `_` contains no rule.

    Raises PackError if a module cannot be imported, or does not define exactly one rule.
    """
    for found in pkgutil.iter_modules(package.__path__):
        if not found.name.startswith("_"):
            yield _rule_of(f"{package.__name__}.{found.name}")


def _rule_of(name: str) -> Rule:
    module = _imported(name)
    own = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Rule) and value.__module__ == name
    ]
    if len(own) != 1:
        raise PackError(f"{name} must define exactly one rule, not {len(own)}")
    return own[0]()


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:  # others wrote the module: it may raise anything
        reason = next(iter(str(error).splitlines()), "")
        raise PackError(f"{name} cannot be imported: {type(error).__name__}: {reason}") from error
