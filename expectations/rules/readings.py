"""Readings: the text by which a KIP is judged where the KIP and released Kafka differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from expectations.rules.base.rule import Rule, Spec
from expectations.rules.catalogue import RULES

READINGS: Mapping[str, tuple[Spec, ...]] = {
    "kip1313": (Spec.SHIPPED, Spec.TEXT, Spec.TAGGED),
    "kip1082": (Spec.SHIPPED, Spec.TEXT),
    "kip511": (Spec.SHIPPED, Spec.TEXT),
    "kip35": (Spec.SHIPPED, Spec.TEXT),
    "kip1242": (Spec.SHIPPED, Spec.TEXT),
}
"""The readings of each KIP, by the family of its rules; the first one is the default."""


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
