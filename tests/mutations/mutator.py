"""Mutators: each breaks one rule in a clean conversation, in every place where it can be broken."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.mutations.script import Script

Mutator = Callable[[Script], Iterator[Script]]

MUTATORS: dict[str, list[Mutator]] = {}
"""The mutators by the rule that they break."""


def breaks(rule: str) -> Callable[[Mutator], Mutator]:
    """Register a mutator."""

    def register(mutator: Mutator) -> Mutator:
        MUTATORS.setdefault(rule, []).append(mutator)
        return mutator

    return register
