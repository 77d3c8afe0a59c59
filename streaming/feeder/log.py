"""The log of the feeder: one JSON object per line on standard output."""

from __future__ import annotations

import json


def log_event(event: str, **fields: object) -> None:
    """Log an event with its fields, and flush."""
    print(json.dumps({"feeder": event, **fields}), flush=True)
