"""What the feeder tells whoever runs it: a JSON object a line on standard output."""

from __future__ import annotations

import json


def tell(event: str, **facts: object) -> None:
    """Tell of an event at once; `facts` are what belongs to it."""
    print(json.dumps({"feeder": event, **facts}), flush=True)
