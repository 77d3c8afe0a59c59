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
    """Return the share of items that KIPWATCH_EXAMPLES asks for, evenly spread.

    Tests that begin at different items sample different ones.
    """
    step = round(1 / _SHARE)
    return items[begin % step :: step]
