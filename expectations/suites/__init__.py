"""Great Expectations suites over the project's tables. Bounded slices only, off the hot path."""

import os

# Read when Great Expectations is imported, which this package's modules do: nothing is sent anywhere.
os.environ["GX_ANALYTICS_ENABLED"] = "false"
