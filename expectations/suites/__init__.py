"""Great Expectations suites over the project's tables; they validate bounded slices only."""

import os
from typing import Final

# Great Expectations reads this when it is imported; without it, it reports its use to its makers.
os.environ["GX_ANALYTICS_ENABLED"] = "false"

FURTHER: Final = "0001-01-01"
"""The folder for rows of days that get no folder of their own: a date to every tool, but of no capture."""
