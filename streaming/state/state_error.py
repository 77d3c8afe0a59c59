"""What is raised where a checkpoint's state cannot be gone on with."""

from __future__ import annotations


class StateError(ValueError):
    """Another kipwatch wrote the stored state, or a part of it is missing; says what to do."""
