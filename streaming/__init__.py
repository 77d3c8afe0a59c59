"""Frames in motion: feeder, query, `check`, demo, benches and the command line."""
