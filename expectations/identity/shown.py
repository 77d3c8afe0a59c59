"""The identities that one connection shows, and what was last claimed of each."""

from __future__ import annotations

import msgspec

from expectations.conversation.progress import Progress, Shown
from expectations.identity.claim import Negotiated
from expectations.identity.refusals import Refusals
from expectations.identity.route import ShownRoute


class ShownIdentity(msgspec.Struct, array_like=True):
    """Where a connection first showed an identity, and what was last claimed of it.

    `began_whole` means that nothing was missed before. `claims` counts the claims made, `claimed_until` is
    the time up to which the latest one tells; both times are in nanoseconds since the epoch. `joins` is True
    for a member that joined its group there.
    """

    first_sequence: int
    since: int
    api_key: int
    api_version: int
    began_whole: bool
    claims: int = 0
    claimed_until: int = 0
    joins: bool = False


class ShownIdentities(msgspec.Struct, omit_defaults=True):
    """The identities that one connection shows. `members` is keyed by `member_name`."""

    instance: ShownIdentity | None = None
    client: ShownIdentity | None = None
    members: dict[str, ShownIdentity] = {}
    negotiated: Negotiated = Negotiated()
    route: ShownRoute = msgspec.field(default_factory=ShownRoute)
    refusals: Refusals = msgspec.field(default_factory=Refusals)

    def are_behind(self, progress: Progress) -> bool:
        """Whether an identity was shown since it was last claimed."""
        return (
            is_behind(self.instance, progress.instance)
            or is_behind(self.client, progress.client)
            or self.route.accepted is not None
            or any(is_behind(shown, progress.members[name]) for name, shown in self.members.items())
        )


def is_behind(identity: ShownIdentity | None, shown: Shown | None) -> bool:
    """Whether an identity was shown since it was last claimed."""
    return identity is not None and shown is not None and identity.claimed_until != shown.until
