"""Great Expectations suites over the project's tables; they validate bounded slices only."""

import os

# Great Expectations reads this when it is imported; without it, it reports its use to its makers.
os.environ["GX_ANALYTICS_ENABLED"] = "false"
