"""How long the state of judging is kept, in one place because the periods depend on each other.

A connection that goes on tells of its identities again every REPUBLISH_AFTER. So identities must be kept for
much longer than that, else those of live connections would be forgotten and judged anew. Connections and
identities are kept equally long: a connection that was silent for a day may come back, and so may the others
that share its ID. The frames topic keeps its records as long by default (`streaming/broker/topics.py`), so
that a query which was down for less loses nothing.
"""

from __future__ import annotations

from typing import Final

KEPT_FOR: Final = 24 * 3600 * 1_000_000_000
"""Nanoseconds of capture clock after which a silent connection or identity is forgotten."""
REPUBLISH_AFTER: Final = 600_000
"""Milliseconds of processing time after which grown findings and shown identities are published again."""
assert KEPT_FOR > 2 * REPUBLISH_AFTER * 1_000_000
