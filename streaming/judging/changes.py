"""Changes: what became different about connections, group members and brokers, for the archive.

A change holds all that is known of its subject, so the latest one tells how things stand.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from decoders.frame.record import Closing
from decoders.protocol import HEARTBEAT_APIS
from expectations.conversation.bodies import NO_NODE, AdvertisedRanges, Features, SoftwareClaim

LIMIT: Final = 1000
"""Changes of one kind that one step of a bucket describes; further ones are counted."""
CLASSIC: Final = "classic"
PROTOCOLS: Final[Mapping[int, str]] = {
    key: name.removesuffix("GroupHeartbeat").lower() for key, name in HEARTBEAT_APIS.items()
}
"""The protocol of a group by the API of its heartbeats: consumer, share or streams."""
_DIGEST_BYTES: Final = 8


class ConnectionChange(msgspec.Struct, frozen=True, array_like=True):
    """A connection at the time `at`, after something of it changed.

    `joined` means that its beginning was not seen, `ranges` is the `ranges_id` of what the broker advertised
    on it. `asked_at` is the time of its first ApiVersions request, `used_at` that of its first other one but
    SASL, `rebootstrap_at` that of a response with error 129. `closing` is NONE while it is open. Times are in
    nanoseconds since the epoch, 0 for what did not happen.
    """

    at: int
    connection: bytes
    cluster: str
    listener: str
    client: str
    server: str
    opened_at: int
    joined: bool
    software: SoftwareClaim | None
    client_id: str | None
    instance_id: bytes | None
    uses_header_v3: bool
    ranges: str | None
    asked_at: int
    used_at: int
    rebootstrap_at: int
    closing: Closing
    closed_by_broker: bool


class MemberChange(msgspec.Struct, frozen=True, array_like=True):
    """A group member on a connection at the time `at`, after something of it changed.

    `member_id`, `epoch` and `error_code` are None for the classic protocol. `error_code` is that of the
    latest answered heartbeat. `has_joined` and `has_left` say what the member did since the previous change;
    a `ghost` did not leave before its connection ended.
    """

    at: int
    connection: bytes
    cluster: str
    listener: str
    software: SoftwareClaim | None
    client_id: str | None
    protocol: str
    group_id: str
    member_id: str | None
    api_version: int
    epoch: int | None = None
    error_code: int | None = None
    has_joined: bool = False
    has_left: bool = False
    ghost: bool = False


class BrokerShown(msgspec.Struct, frozen=True, array_like=True):
    """What a broker showed of itself on a connection. What it has not shown is None.

    `body_version` is the version of the ApiVersions response, `ranges` are ordered by API key.
    """

    cluster: str
    listener: str
    server: str
    body_version: int | None
    ranges: AdvertisedRanges | None
    supported_features: Features | None
    finalized_features: Features | None
    cluster_id: str | None = None
    node_id: int = NO_NODE


class Showings(msgspec.Struct, array_like=True):
    """How often something was shown, and when first and last, in nanoseconds since the epoch."""

    count: int
    first: int
    last: int

    def add(self, other: Showings) -> None:
        """Add other showings of the same."""
        self.count += other.count
        self.first = min(self.first, other.first)
        self.last = max(self.last, other.last)


class Changes(msgspec.Struct, array_like=True):
    """The changes of one step. `further` counts those beyond LIMIT: connections, members, brokers."""

    connections: list[ConnectionChange] = []
    members: list[MemberChange] = []
    brokers: list[tuple[BrokerShown, Showings]] = []
    further: tuple[int, int, int] = (0, 0, 0)


def ranges_id(ranges: Iterable[tuple[int, int, int]]) -> str:
    """Identify advertised ranges: equal ones have equal IDs, in any order. 16 hex digits of a digest."""
    encoded = msgspec.msgpack.encode(sorted(ranges))
    return hashlib.blake2b(encoded, digest_size=_DIGEST_BYTES).hexdigest()
