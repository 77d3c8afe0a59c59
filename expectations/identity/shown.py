"""The identities that one connection shows: when each was seen, and how much of it was told."""

from __future__ import annotations

import msgspec

from expectations.conversation.connection_window import Moment
from expectations.conversation.observation import Observation
from expectations.identity.claim import Negotiated


class Sighting(msgspec.Struct, array_like=True):
    """When a connection showed an identity, and what was last told of it.

    `began_whole` tells that nothing was missed before it was first shown.
    """

    first_sequence: int
    since: int
    until: int
    before_until: int
    api_key: int
    api_version: int
    began_whole: bool
    told: int = 0
    told_until: int = 0

    @property
    def is_behind(self) -> bool:
        """Whether it was seen since it was last told of."""
        return self.told_until != self.until

    def see_again(self, shown: Observation) -> None:
        """Take in that it was shown again."""
        self.until, self.before_until = seen_again(self.until, self.before_until, shown)


def seen_again(until: int, before_until: int, shown: Observation | Moment) -> tuple[int, int]:
    """Give the latest time and the one before it, once something was shown again."""
    if shown.last_captured_at <= until:
        return until, before_until
    return shown.last_captured_at, shown.previous_captured_at or until


class Sightings(msgspec.Struct, omit_defaults=True):
    """The identities that one connection shows. Members stand by group ID, zero byte, member ID."""

    instance: Sighting | None = None
    client: Sighting | None = None
    members: dict[str, Sighting] = {}
    negotiated: Negotiated = Negotiated()

    @property
    def are_behind(self) -> bool:
        """Whether an identity was shown since it was last told of."""
        shown = (self.instance, self.client, *self.members.values())
        return any(sighting is not None and sighting.is_behind for sighting in shown)
