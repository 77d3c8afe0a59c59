"""The identities of one bucket, in the order of their latest claims.

What the judge needs of them is a protocol, because the query keeps them as bytes and decodes what a batch
touches (`streaming/state/identities.py`). `IdentityState` has them all as objects and defines what is right.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import msgspec

from expectations.judging.identity_group import Group

GROUP_LIMIT = 2_000
"""Identities that one bucket keeps; the one that was silent for longest makes room."""


class Identities(Protocol):
    """The identities of one bucket. `clock` is the latest capture time, in nanoseconds."""

    clock: int

    def claimed(self, name: str) -> Group:
        """Return an identity that is claimed now, to be changed in place; it becomes the latest."""

    def surplus(self) -> Iterator[Group]:
        """Remove and yield what is above GROUP_LIMIT, beginning with what was claimed longest ago."""

    def unsettled(self) -> Iterator[Group]:
        """Yield the identities that are not settled, in their order, to be changed in place."""

    def forget_silent(self, since: int) -> None:
        """Forget what was last claimed before `since`, in nanoseconds."""


class IdentityState(msgspec.Struct):
    """The identities of one bucket as objects, the latest at the end."""

    groups: dict[str, Group] = {}
    clock: int = 0

    def claimed(self, name: str) -> Group:
        """Return an identity that is claimed now; it becomes the latest."""
        group = self.groups[name] = self.groups.pop(name, Group())
        return group

    def surplus(self) -> Iterator[Group]:
        """Remove and yield what is above GROUP_LIMIT."""
        while len(self.groups) > GROUP_LIMIT:
            yield self.groups.pop(next(iter(self.groups)))

    def unsettled(self) -> Iterator[Group]:
        """Yield the identities that are not settled."""
        return (group for group in self.groups.values() if group.is_unsettled)

    def forget_silent(self, since: int) -> None:
        """Forget what was last claimed before `since`."""
        for name, group in list(self.groups.items()):
            if group.is_silent(since):
                group.forget_silent()
                if not group.known:
                    del self.groups[name]
