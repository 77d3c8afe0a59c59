"""Relays in front of a cluster, through which `kipwatch record` runs a test suite."""
