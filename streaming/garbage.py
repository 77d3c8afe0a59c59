"""How often Python looks for reference cycles.

Our code creates none, so each look at objects that live, such as those of open connections, is in vain.
"""

from __future__ import annotations

import gc
from typing import Final

COLLECT_AFTER: Final = 100_000
"""New objects after which Python runs a collection by itself; the default is 700."""


def make_collections_rare() -> None:
    """Let this process run a collection only after many new objects."""
    gc.set_threshold(COLLECT_AFTER)
