"""Writes the first configuration for a cluster: `kipwatch init`."""
