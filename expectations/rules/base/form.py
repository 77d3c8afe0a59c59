"""The form of a rule: what its page, its sentences and its state must be, whoever wrote it."""

from __future__ import annotations

import enum
import re
import string
import types
import typing
from collections.abc import Iterator
from typing import Annotated, Any, Final

import msgspec

from expectations.conversation.observation import Evidence, Observation
from expectations.conversation.own_values import BY_VALUE
from expectations.rules.base.identity_rule import IdentityRule
from expectations.rules.base.rule import METHODS, Judgement, Level, Role, Rule

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
