"""What the query tells whoever runs it: a JSON object a line on standard output."""

from __future__ import annotations

import json
from datetime import UTC, datetime


def tell(event: str, **facts: object) -> None:
    """Tell of an event at once; `facts` are what belongs to it."""
    time = datetime.now(UTC).isoformat(timespec="milliseconds")
    print(json.dumps({"query": event, "time": time, **facts}), flush=True)
