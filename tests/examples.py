"""How many examples a property test runs: all of them in `make test`, a tenth in `make check`."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

_SHARE = float(os.environ.get("KIPWATCH_EXAMPLES", "1"))


def examples(most: int, **options: Any) -> settings:
    """Return settings that run this many examples, or the share of them that KIPWATCH_EXAMPLES asks for."""
    return settings(max_examples=max(1, round(most * _SHARE)), deadline=None, **options)
