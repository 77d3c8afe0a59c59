"""Rule packs: finds rules of others, in packages of their own, by entry point, and tells what they lack.

    kipwatch_acme/__init__.py          RUNBOOK, the address of the pages of its rules
    kipwatch_acme/team_unknown.py      the rule acme/team-unknown; a file that begins with `_` is none
    kipwatch_acme/requirements.toml    what the rules judge
    kipwatch_acme/cases/*.md           a page of cases for each rule

The entry point `acme` of the group `kipwatch.rules` names the package. A pack of which a rule cannot be
imported, or has not the form of one, is refused as a whole, in one line: judging goes on without it.
"""

from __future__ import annotations

import enum
import importlib
import pkgutil
import re
import string
import types
import typing
from collections.abc import Collection, Iterator
from importlib.metadata import Distribution, EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from expectations.conversation.observation import Evidence, Observation
from expectations.conversation.own_values import BY_VALUE
from expectations.rules.base.rule import METHODS, PACK, IdentityRule, Judgement, Level, Role, Rule

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
    """The package is not a valid pack. The message is one line."""


def load_packs() -> tuple[list[Pack], dict[str, str]]:
    """Load all packs. Returns the valid ones and, by package, why each other one is refused."""
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


HEADINGS: Final = ("## Why it matters", "## Example", "## What to do", "## What it does not cover")
"""The headings of a page, in order."""
FEWEST_WORDS: Final = 5
"""Words under each heading."""
_SENTENCES: Final = ("section", "requirement", "needs", "message")
_WHOLE: Final = (Observation, Evidence, Judgement)
"""Types of ours that a state may hold."""
_PLAIN: Final = (bool, str, bytes, type(None))


def faults(rule: Rule) -> Iterator[str]:
    """Yield what is wrong with the form of a rule, each in a line that continues its ID."""
    missing = [name for name in (*_SENTENCES, "level", "role") if not hasattr(rule, name)]
    if missing:
        yield f"has no {', '.join(missing)}"
        return
    yield from _faults_of_page(rule.page)
    yield from _faults_of_sentences(rule)
    yield from _faults_of_methods(rule)
    yield from _faults_of_state(rule)


def _faults_of_page(page: str) -> Iterator[str]:
    first, *others = page.splitlines() or [""]
    if not (first.startswith("Checks ") and first.endswith(".")) or (others and others[0]):
        yield 'has a page that does not begin with one line from "Checks" to a period'
    headings = re.findall(r"^## .*$", page, flags=re.MULTILINE)
    if headings != list(HEADINGS):
        yield f"has a page whose headings are not {', '.join(HEADINGS)}"
    elif any(len(part.split()) < FEWEST_WORDS for part in re.split(r"^## .*$", page, flags=re.MULTILINE)):
        yield f"has a heading with less than {FEWEST_WORDS} words under it"


def _faults_of_sentences(rule: Rule) -> Iterator[str]:
    if len(rule.section) <= 3:
        yield "has a section that names no place"
    if not rule.requirement.endswith("."):
        yield "has a requirement that is no sentence"
    if len(rule.needs) <= 8 or rule.needs.endswith("."):
        yield "has needs that do not continue a sentence"
    names = [name for _, name, _, _ in string.Formatter().parse(rule.message) if name is not None]
    if not all(name.isidentifier() for name in names):
        yield "has a message with something else than a name in braces"
    if not rule.message.isprintable() or rule.message.endswith(".") or rule.message[:1].isupper():
        yield "has a message that is not one line in lower case without a period"
    if not isinstance(rule.level, Level) or not isinstance(rule.role, Role):
        yield "has a level or a role that is none"


def _faults_of_methods(rule: Rule) -> Iterator[str]:
    unknown = {name for name in dir(rule) if name.startswith("on_")} - set(METHODS.values())
    if unknown:
        yield f"has methods that nobody calls: {', '.join(sorted(unknown))}"
    if not rule.kinds and type(rule).close is Rule.close and not isinstance(rule, IdentityRule):
        yield "judges nothing: it has none of the methods of a rule"


def _faults_of_state(rule: Rule) -> Iterator[str]:
    try:
        msgspec.convert({}, rule.State)
    except (TypeError, msgspec.ValidationError):
        yield "has a state that cannot be stored, or has a field without a default"
        return
    if not issubclass(rule.State, msgspec.Struct):
        yield "has a state that is no msgspec.Struct"
        return
    for path in _unstorable(rule.State, rule.State.__name__):
        yield f"has a state in which {path} needs another type (expectations/conversation/own_values.py)"


def _unstorable(annotation: Any, path: str) -> Iterator[str]:
    """Yield the places of values that no canonical form can have: unmarked numbers, sets, own types."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated or annotation in _WHOLE or annotation in _PLAIN:
        return
    if origin in (typing.Union, types.UnionType):
        chosen = [each for each in arguments if each is not type(None)]
        yield from _unstorable(chosen[0], path) if len(chosen) == 1 else [path]
    elif origin is tuple:
        # It is kept as it is, so nothing in it may be the connection's own.
        yield from (path for argument in arguments if BY_VALUE not in typing.get_args(argument))
    elif origin in (list, dict):
        for argument in arguments:
            yield from _unstorable(argument, path)
    elif isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        hints = typing.get_type_hints(annotation, include_extras=True)
        for name in annotation.__struct_fields__:
            yield from _unstorable(hints[name], f"{path}.{name}")
    elif not (isinstance(annotation, type) and issubclass(annotation, enum.Enum)):
        yield path
