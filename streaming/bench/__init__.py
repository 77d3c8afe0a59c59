"""Benches: how fast and how large each part of kipwatch is, beside other tools if there are any."""
