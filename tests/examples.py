"""How much a property test tries: a quarter in `make test`, a tenth in `make check`, all in `make long`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, TypeVar

from hypothesis import settings

Item = TypeVar("Item")
_SHARE = float(os.environ.get("KIPWATCH_EXAMPLES", "1"))


def examples(most: int, **options: Any) -> settings:
    """Return settings that run this many examples, or the share of them that KIPWATCH_EXAMPLES asks for."""
    return settings(max_examples=max(1, round(share_of(most))), deadline=None, **options)


def share_of(most: float) -> float:
    """Return the share of an amount of work that KIPWATCH_EXAMPLES asks for."""
    return most * _SHARE


def sampled(items: Sequence[Item], begin: int = 0) -> Sequence[Item]:
    """Return a share of items, evenly spread: that of KIPWATCH_EXAMPLES squared, so a sixteenth of a quarter.

    Tests that begin at different items sample others.
    """
    step = round(_SHARE**-2)
    return items[begin % step :: step]
