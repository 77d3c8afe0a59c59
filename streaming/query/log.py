"""The log of the query: one JSON object per line on standard output."""

from __future__ import annotations

import json
from datetime import UTC, datetime


def log_event(event: str, **fields: object) -> None:
    """Log an event with its time and fields, and flush."""
    time = datetime.now(UTC).isoformat(timespec="milliseconds")
    print(json.dumps({"query": event, "time": time, **fields}), flush=True)
