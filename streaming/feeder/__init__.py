"""Captures, live or from files, to the frames topic."""
