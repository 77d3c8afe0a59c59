"""Claims: what one connection showed of an identity that other connections may share.

A claim is a snapshot. The connection tells it when the identity first appears, when what it says
of it changes, and when it leaves; the latest snapshot of a claim holds everything before it. So
claims may be merged in any order, and twice.
"""

from __future__ import annotations

import enum

import msgspec

from expectations.conversation.bodies import SoftwareClaim
from expectations.conversation.occurrence import Evidence


class IdentityKind(enum.IntEnum):
    """What connections may have in common."""

    INSTANCE = 1
    """A client instance ID."""
    MEMBER = 2
    """A member ID in a group."""
    CLIENT = 3
    """A client ID at a client's address."""
    BROKER = 4
    """A server address."""


class Identity(msgspec.Struct, frozen=True, array_like=True):
    """One identity in a cluster. `name` is its text, two parts of which a zero byte keeps apart."""

    kind: IdentityKind
    cluster: str
    name: str


class Negotiated(msgspec.Struct, frozen=True, array_like=True):
    """How a connection came to its versions. Times are 0 where it did not happen.

    `asked_at` is when ApiVersions was first asked, `used_at` when anything else but SASL was,
    `rebootstrap_at` when ApiVersions was answered 129, `described_at` when Metadata or
    DescribeCluster first told the client of the cluster.
    """

    asked_at: int = 0
    used_at: int = 0
    rebootstrap_at: int = 0
    described_at: int = 0


class Refused(msgspec.Struct, frozen=True, array_like=True):
    """A request of an advertised version that the broker would not take.

    `by_error` tells that it was refused by error 35, not by closing the connection.
    """

    api_key: int
    api_version: int
    by_error: bool = False


class Claim(msgspec.Struct, frozen=True, array_like=True):
    """What one connection showed of one identity.

    Times are nanoseconds since the epoch. `first_sequence` and `since` are those of the first frame
    that shows it, `until` is the time of the latest one, `before_until` that of the one before.

    `opened_at` is when the connection began. `whole` tells that it was seen from there on without a
    loss, `began_whole` that it was until the identity was first shown. `has_left` tells that nothing
    more will come. `initial_client_id` is told only where the very first request is known. `evidence`
    is given once, with the first snapshot; `as_of` counts the snapshots.
    """

    identity: Identity
    connection: bytes
    first_sequence: int
    as_of: int
    client: str
    server: str
    opened_at: int
    since: int
    until: int
    before_until: int
    has_left: bool
    began_whole: bool
    whole: bool
    evidence: Evidence | None = None
    api_key: int = -1
    api_version: int = -1
    client_id: str | None = None
    initial_client_id: str | None = None
    first_is_known: bool = False
    software: SoftwareClaim | None = None
    instance_id: bytes | None = None
    group_id: str | None = None
    member_id: str | None = None
    negotiated: Negotiated | None = None
    refused: Refused | None = None

    @property
    def client_host(self) -> str:
        """The client's address without its port."""
        return self.client.rpartition(":")[0]

    @property
    def order(self) -> tuple[int, bytes, int]:
        """What claims are ordered by: their beginning."""
        return self.since, self.connection, self.first_sequence

    def merged(self, other: Claim) -> Claim:
        """Give the later snapshot, with the evidence of whichever has it."""
        latest, earlier = (self, other) if self.as_of >= other.as_of else (other, self)
        return msgspec.structs.replace(latest, evidence=latest.evidence or earlier.evidence)


def answered_claim(cluster: str, server: str, api_key: int, api_version: int) -> Claim:
    """Tell that a broker has answered an API version at least once, on whatever connection."""
    return Claim(
        identity=Identity(IdentityKind.BROKER, cluster, server),
        connection=b"",
        first_sequence=api_key << 16 | api_version,
        as_of=0,
        client="",
        server=server,
        opened_at=0,
        since=0,
        until=0,
        before_until=0,
        has_left=True,
        began_whole=True,
        whole=True,
        api_key=api_key,
        api_version=api_version,
    )
