"""Claims: what one connection showed of an identity that other connections may share.

A claim is a snapshot. A connection makes one when the identity first appears, when its facts change,
and when the connection ends. The latest snapshot includes all earlier ones, so claims may be merged
in any order, and more than once.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Iterable
from typing import Final

import msgspec

from decoders.frame.record import host_of
from decoders.protocol import JOINING
from decoders.wire.frame_detector import OtherProtocol, protocol_of
from expectations.conversation.bodies import AdvertisedRanges, ClusterDescription, SoftwareClaim
from expectations.conversation.observation import Evidence
from expectations.conversation.own_values import ApiKey, Time, Version

CLOCKS_DIFFER = 60_000_000_000
"""Nanoseconds, at most, by which the clocks of two feeders differ."""
FRESH = 1
"""The correlation ID, at most, of the first request of a process: clients count from 0 or from 1."""


class IdentityKind(enum.IntEnum):
    """The kinds of identities that connections may share."""

    INSTANCE = 1
    """A client instance ID."""
    MEMBER = 2
    """A member ID in a group."""
    CLIENT = 3
    """A client ID at a client's address."""
    BROKER = 4
    """A server address."""
    LISTENER = 5
    """A server address to which clients may speak Kafka, or something else."""
    ROUTE = 6
    """A server address, as the way to a broker."""
    MEMBERSHIP = 7
    """A client instance ID in a group."""


OF_CLIENTS: Final = frozenset(
    {IdentityKind.INSTANCE, IdentityKind.MEMBER, IdentityKind.CLIENT, IdentityKind.MEMBERSHIP}
)
"""The kinds of identities that clients show, and not servers."""
DIGEST_BYTES: Final = 16


class Identity(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One identity in a cluster. A zero byte separates the parts of a `name` that has two."""

    kind: IdentityKind
    cluster: str
    name: str

    @property
    def digest(self) -> bytes:
        """A digest of the identity, the same in every process."""
        return digest_of(self.kind, self.cluster, self.name)


def digest_of(kind: int, cluster: str, name: str) -> bytes:
    """Return the digest of an identity: 128 bits, so that nobody can make two identities of one digest."""
    named = f"{int(kind)}\0{cluster}\0{name}".encode()
    return hashlib.blake2b(named, digest_size=DIGEST_BYTES).digest()


class Negotiated(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """When a connection negotiated versions, in nanoseconds since the epoch; 0 where it did not happen.

    `asked_at` is when the first ApiVersions request was sent, `used_at` when the first other request
    but SASL was, `rebootstrap_at` when ApiVersions was refused with error 129, `described_at` when
    Metadata or DescribeCluster first described the cluster to the client. `refused_ids` are those that the
    refusal with error 129 was about. `refused_at` is when version `refused_version` of ApiVersions was
    refused with error 35, if the client sent nothing else afterwards; it is known when the connection has
    ended. `first_use` is the API of the request sent at `used_at`. `unidentified` means that the broker
    accepted ApiVersions in a version with IDs that gave none.
    """

    asked_at: Time = 0
    used_at: Time = 0
    rebootstrap_at: Time = 0
    described_at: Time = 0
    refused_ids: ClusterDescription | None = None
    refused_at: Time = 0
    refused_version: Version = -1
    first_use: ApiKey = -1
    unidentified: bool = False


NOT_LISTED: Final = (0, -1)
"""The range of an API that an advertisement does not list."""


class Refused(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A request that the broker refused, perhaps for its version.

    `by_error` is True if it was refused with error 35, False if by closing the connection. `advertised` is
    the range that the broker had advertised for the API on this connection, NOT_LISTED if its list has none,
    None if it had advertised nothing. The request was sent at `asked_at` or later. `times` counts how often
    it was sent, each time after the one before was refused. `served` is True if the broker had responded to
    the version on this connection before it advertised any. `admitted` is True if the broker served the
    connection before, `shook_hands` if a login was begun there. `is_unread` is True if the request was cut,
    so that it may be malformed, `is_unknown` if no schema has its version.

    Three are True for ApiVersions only: `is_whole` if it was read to its last byte and its header is one that
    each broker reads, `on_header_v3` if it was read to its last byte on header v3, `is_newer` if no schema
    has its version and its header is one that each broker reads.
    """

    api_key: int
    api_version: int
    by_error: bool = False
    advertised: tuple[int, int] | None = None
    asked_at: int = 0
    times: int = 1
    is_whole: bool = False
    served: bool = False
    on_header_v3: bool = False
    admitted: bool = False
    shook_hands: bool = False
    is_newer: bool = False
    is_unread: bool = False
    is_unknown: bool = False

    @property
    def request(self) -> tuple[int, int]:
        """The API key and version that were refused."""
        return self.api_key, self.api_version


class Foreign(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A connection that is not Kafka: its first four bytes.

    `named_port` is True if the user names the server's port as one of a broker, `responded` if the server
    sent something.
    """

    beginning: bytes
    named_port: bool
    responded: bool

    @property
    def protocol(self) -> OtherProtocol:
        """The protocol that the bytes look like."""
        return protocol_of(self.beginning)

    @property
    def size(self) -> int:
        """The bytes as a broker reads them: the signed length of a frame."""
        return int.from_bytes(self.beginning, signed=True)


class Route(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The broker behind a server address: its description of itself, and IDs that it accepted or rejected."""

    accepted: ClusterDescription | None = None
    described: ClusterDescription | None = None
    rejected: ClusterDescription | None = None


class Membership(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The heartbeats of a member on one connection.

    `joins` is True if the first of them joined the group. `epoch` is that of the latest one, `error_code`
    that of its response, None if it has none. `silence` is for how long the connection went on after it, in
    nanoseconds. `joined_as` is the correlation ID of the first heartbeat that joined, None if none was seen.
    """

    joins: bool
    epoch: int
    error_code: int | None
    silence: int
    joined_as: int | None = None

    @property
    def has_left(self) -> bool:
        """Whether the latest heartbeat says that the member leaves."""
        return self.epoch < JOINING


class Claim(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A snapshot of one identity on one connection.

    Times are nanoseconds since the epoch. `first_sequence` and `since` are those of the first frame
    that shows it, `until` is the time of the latest one, `before_until` that of the one before.

    `opened_at` is when the connection began, or was joined midway if `joined`. `whole` is True if it was seen
    from there on without a loss, `began_whole` if it was until the identity was first shown. `has_left` is
    True if nothing more will come. `initial_client_id` is set only if the very first request is known.
    `evidence` comes with the first snapshot only; `as_of` counts the snapshots.

    Claims about a server that belong to no connection have an empty `connection` (`server_claim.py`).
    `ranges` is set on those about an advertisement, `witness` is the first connection that shows the claim.
    `after_login` is set on those about a connection that the server served: whether it had logged in.
    `told_first` is True if it was told the versions before its login, too. `withheld` are the keys of APIs of
    which the list before the login lacked versions.
    Those about a client ID name the connection's `only_member`, if it has exactly one (`member_name`).
    They have the correlation ID of its first request, and say whether the client gave its client ID in that
    request only, without header v3.
    `only_asked` means that the connection ended when it had asked for the versions, and nothing else.
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
    foreign: Foreign | None = None
    route: Route | None = None
    membership: Membership | None = None
    ranges: AdvertisedRanges | None = None
    witness: bytes = b""
    joined: bool = False
    after_login: bool | None = None
    only_asked: bool = False
    told_first: bool = False
    withheld: tuple[int, ...] = ()
    only_member: str = ""
    first_correlation_id: int | None = None
    gives_client_id_once: bool = False
    principal: str | None = None
    placement: str | None = None

    @property
    def key(self) -> tuple[bytes, int] | str:
        """Claims of one identity with equal keys are snapshots of each other.

        A listener has one claim for all that spoke Kafka, one for each other protocol to which it responded,
        and one for each client address that got no response. A server has one for each client address that
        only asked for its versions.
        """
        if self.only_asked:
            return self.client_host
        if self.identity.kind is not IdentityKind.LISTENER:
            return self.connection, self.first_sequence
        if self.foreign is None:
            return ""
        return self.foreign.protocol if self.foreign.responded else self.client_host

    @property
    def client_host(self) -> str:
        """The client's address without its port."""
        return host_of(self.client)

    @property
    def named_software(self) -> tuple[str, str] | None:
        """The name and version of the client's software, None if the client gave none."""
        return (self.software.name, self.software.version) if self.software is not None else None

    @property
    def refusal(self) -> tuple[object, ...] | None:
        """Equal for refusals of one request of one client at one server; None if nothing was refused.

        Three other kinds of claims count as refusals. Equal are all that only asked for the versions, those
        of a client address from which versions were withheld, and those told to rebootstrap from equal IDs.
        """
        if self.only_asked:
            return ("only asked",)
        if self.withheld:
            return "withheld", self.client_host
        if self.route is not None and self.route.rejected is not None:
            return "rejected", self.route.rejected
        client = self.client_host, self.client_id, self.named_software, self.server
        if self.refused is not None:
            return self.refused.request, self.refused.by_error, *client
        if self.negotiated is not None and self.negotiated.refused_at and not self.negotiated.used_at:
            return self.negotiated.refused_version, *client
        return None

    @property
    def order(self) -> tuple[int, bytes, int]:
        """The sort key of claims: their beginning."""
        return self.since, self.connection, self.first_sequence

    @property
    def begins_anew(self) -> bool:
        """Whether its first request has the correlation ID with which a process begins to count."""
        return self.first_correlation_id is not None and 0 <= self.first_correlation_id <= FRESH

    def opened_after(self, at: int) -> bool:
        """Whether the connection surely began after a time."""
        return not self.joined and self.opened_at > at

    def has_addresses_of(self, other: Claim) -> bool:
        """Whether both have the same sockets. At one time that is one TCP connection, seen by two feeders."""
        return (self.client, self.server) == (other.client, other.server)

    def is_same_process(self, other: Claim) -> bool:
        """Whether both connections carry one client instance ID, which shows that they are of one process."""
        return self.instance_id is not None and self.instance_id == other.instance_id

    def may_be_same_process(self, other: Claim) -> bool:
        """Whether both connections may be of one process, as far as their client instance IDs tell."""
        return None in (self.instance_id, other.instance_id) or self.instance_id == other.instance_id

    def has_other_principal(self, other: Claim) -> bool:
        """Whether both have logged in, by names that differ: no client logs in by two.

        It is not known at once, so rules ask that do not accuse before a claim is settled.
        """
        return None not in (self.principal, other.principal) and self.principal != other.principal

    def may_be_same_client(self, other: Claim) -> bool:
        """Whether both connections may be of one client, as far as instance IDs and principals tell."""
        return self.may_be_same_process(other) and not self.has_other_principal(other)

    def may_be_copy_of(self, other: Claim) -> bool:
        """Whether both may be one TCP connection, seen by two feeders with different clocks.

        A client rarely takes the same port again so soon.
        """
        apart = max(self.opened_at - other.until, other.opened_at - self.until)
        return self.has_addresses_of(other) and apart <= CLOCKS_DIFFER

    def merged(self, other: Claim) -> Claim:
        """Return the later of two snapshots, with the evidence of the one that has it.

        Of claims that different connections made, the one that began first is returned. Claims of a server
        that belong to no connection differ only in when it showed the same.
        """
        if (self.connection, self.first_sequence) != (other.connection, other.first_sequence):
            return min(self, other, key=lambda claim: claim.order)
        latest, earlier = (self, other) if self.as_of >= other.as_of else (other, self)
        first = min(self, other, key=lambda claim: (claim.since, claim.witness))
        return msgspec.structs.replace(
            latest,
            evidence=latest.evidence or earlier.evidence,
            since=first.since,
            opened_at=first.opened_at,
            until=max(self.until, other.until),
            witness=first.witness,
        )


def united(claims: Iterable[Claim]) -> list[Claim]:
    """Merge the snapshots of each claim."""
    latest: dict[tuple[Identity, tuple[bytes, int] | str], Claim] = {}
    for claim in claims:
        key = claim.identity, claim.key
        latest[key] = claim.merged(latest[key]) if key in latest else claim
    return list(latest.values())
