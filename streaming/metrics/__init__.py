"""Every metric, defined once, and how it is exposed."""
