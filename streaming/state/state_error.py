"""Errors of a checkpoint whose state cannot be used."""

from __future__ import annotations


class StateError(ValueError):
    """Another kipwatch wrote the stored state, or a part of it is missing; says what to do."""
