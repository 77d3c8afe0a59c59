"""What a running query takes over of a changed configuration: the decisions on rules, nothing else."""

from __future__ import annotations

from typing import Final

import msgspec

from streaming.settings.configuration import Configuration

DECISIONS: Final = ("spec", "disable", "levels", "suppress", "listener")


def take_over(current: Configuration, changed: Configuration) -> tuple[Configuration, list[str]]:
    """Return `current` with the decisions of `changed`, and the other settings in which the two differ."""
    taken = msgspec.structs.replace(current, **{name: getattr(changed, name) for name in DECISIONS})
    names = Configuration.__struct_fields__
    return taken, [name for name in names if getattr(taken, name) != getattr(changed, name)]
