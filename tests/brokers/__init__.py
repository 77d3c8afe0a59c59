"""Brokers that can be had here, each probed for its duties."""
