"""The catalogue of all rules, one in each module `rules/<family>/<offence>.py`, and their readings.

A rule is found by its file, here or in a pack of others (`packs.py`). RULES has each in the default reading.
Where a KIP and released Kafka differ, `rules_read_as` makes rules in another. RULE_STATES has a field for
each rule that remembers something.
"""

from __future__ import annotations

import importlib
import operator
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from expectations import rules as rules_package
from expectations.rules.base.rule import NoState, Rule, Spec
from expectations.rules.packs import load_packs, rules_in

BASE = "base"
"""The package of base classes; it contains no rule."""


def _own_rules() -> Iterator[Rule]:
    for found in pkgutil.iter_modules(rules_package.__path__):
        if found.ispkg and found.name != BASE:
            yield from rules_in(importlib.import_module(f"{rules_package.__name__}.{found.name}"))


PACKS, REFUSED_PACKS = load_packs()
"""The packs of others that are installed, and why others are refused, by package."""
RULES: tuple[Rule, ...] = tuple(
    sorted((*_own_rules(), *(rule for pack in PACKS for rule in pack.rules)), key=lambda rule: rule.id)
)
"""Every rule, by id."""

RULE_STATES: type[msgspec.Struct] = msgspec.defstruct(
    "RuleStates",
    [
        (rule.state_name, rule.State, msgspec.field(default_factory=rule.State))
        for rule in RULES
        if rule.State is not NoState
    ],
)
"""The rule states of one connection: a field for each rule that keeps a state."""
READINGS: Mapping[str, tuple[Spec, ...]] = {
    "kip1313": (Spec.SHIPPED, Spec.TEXT, Spec.TAGGED),
    "kip1082": (Spec.SHIPPED, Spec.TEXT),
    "kip511": (Spec.SHIPPED, Spec.TEXT),
    "kip35": (Spec.SHIPPED, Spec.TEXT),
    "kip1242": (Spec.SHIPPED, Spec.TEXT),
}
"""The readings of each KIP, by the family of its rules; the first one is the default."""


def rule_named(rule_id: str) -> Rule:
    """Return the rule with an id. Raises KeyError if there is none."""
    return {rule.id: rule for rule in RULES}[rule_id]


def state_reader(rule: Rule) -> Callable[[Any], Any]:
    """Return what reads a rule's state from the states of a connection."""
    if rule.State is NoState:
        nothing = NoState()
        return lambda _states: nothing
    return operator.attrgetter(rule.state_name)


_NEW_STATES: Final = msgspec.structs.astuple(RULE_STATES())


def changed_states(states: Any) -> dict[str, Any]:
    """Return, by name, those rule states of a connection that differ from those of a new one."""
    kept = zip(states.__struct_fields__, msgspec.structs.astuple(states), _NEW_STATES, strict=True)
    return {name: state for name, state, new in kept if state != new}


def read_choices(choices: Iterable[str]) -> dict[str, Spec]:
    """Parse choices such as `kip1082=text`. Raises ValueError for an unknown KIP or reading."""
    return dict(_read_choice(choice) for choice in choices)


def _read_choice(choice: str) -> tuple[str, Spec]:
    family, _, reading = choice.partition("=")
    if family not in READINGS:
        raise ValueError(f"{choice!r} names no KIP; choose one of {', '.join(READINGS)}")
    if reading not in READINGS[family]:
        raise ValueError(f"{choice!r} names no reading of {family}; it has {', '.join(READINGS[family])}")
    return family, Spec(reading)


def rules_read_as(choices: Mapping[str, Spec]) -> tuple[Rule, ...]:
    """Return every rule, ordered by id, in the reading chosen for its family."""
    return tuple(type(rule)(choices.get(rule.family, Spec.SHIPPED)) for rule in RULES)
