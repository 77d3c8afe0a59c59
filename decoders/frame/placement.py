"""Where a client runs in Kubernetes, as one text: `payments/checkout@node-7`, namespace, workload and node.

Only the node is known, `@node-7`, where its address is shared by whatever uses the node's network.
"""

from __future__ import annotations

import re
from typing import Final

LONGEST: Final = 256
"""Characters of a placement. Longer ones are left out."""
_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_PLACEMENT: Final = re.compile(rf"(?:{_NAME}/{_NAME})?@{_NAME}")


def is_placement(text: str) -> bool:
    """Whether a text is a placement."""
    return len(text) <= LONGEST and _PLACEMENT.fullmatch(text) is not None


def workload_of(placement: str | None) -> str | None:
    """Return namespace and workload of a placement, such as `payments/checkout`, None if it has none."""
    return placement.partition("@")[0] or None if placement else None


def node_of(placement: str | None) -> str | None:
    """Return the node of a placement, None of none."""
    return placement.partition("@")[2] if placement else None
