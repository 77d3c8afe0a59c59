"""Retention periods of silent connections, their identities and the frames topic, which depend on each other.

- The feeder, the query's state and the shared identities keep a silent connection equally long, KEPT_FOR:
  the first to forget it would mistake its next frame for the first of a new connection. A broker closes idle
  connections much earlier, after 10 minutes (`connections.max.idle.ms`).
- A live connection claims its identities again every REPUBLISH_AFTER. KEPT_FOR must be much longer, or
  identities of live connections would be forgotten and judged anew.
- The frames topic keeps its records for KEPT_FOR by default, so a query that was down for less loses nothing.
"""

from __future__ import annotations

from typing import Final

KEPT_FOR: Final = 24 * 3600 * 1_000_000_000
"""Nanoseconds after which a silent connection, an identity or a record of the frames topic is dropped."""
MILLISECOND: Final = 1_000_000
"""Nanoseconds."""
REPUBLISH_AFTER: Final = 600_000
"""Milliseconds after which grown findings and shown identities are published again."""
assert KEPT_FOR > 2 * REPUBLISH_AFTER * MILLISECOND
