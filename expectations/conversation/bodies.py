"""The parts of request and response bodies that rules read: one small struct for each kind of body."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from decoders.protocol import UNSUPPORTED_VERSION
from expectations.conversation.own_values import NodeId
from expectations.conversation.texts import is_blank

NO_NODE = -1
"""The node ID that names no broker, as on the wire (KIP-1242)."""
OTHER_HEADER = -1
"""The body version of an ApiVersions refusal behind a header version that it must not have."""
NO_LAYOUT = -2
"""The body version of an ApiVersions refusal of which nothing but the error code can be read."""
LONGEST_SHARE_MEMBER_ID = 36
"""UTF-16 code units: the longest member ID that brokers accept in a Share request."""
LONGEST_OWN_MEMBER_ID = 36
"""Bytes of the longest member ID that a client makes of a UUID. The coordinator of a classic group makes
longer ones: a client ID or instance ID, a hyphen, and a UUID."""
NAMED_LIMIT = 64
"""The most brokers of a description that are kept because their host is a name."""


class SoftwareClaim(msgspec.Struct, frozen=True, array_like=True, tag="software", gc=False):
    """The client software named by an ApiVersions request of version 3 or later (KIP-511).

    From version 5 on the request may also name the broker that the client means to reach (KIP-1242). A
    `cluster_id` of None and a `node_id` of NO_NODE are not given.
    """

    name: str
    version: str
    cluster_id: str | None = None
    node_id: NodeId = NO_NODE

    @property
    def gives_ids(self) -> bool:
        """Whether the request names a cluster or a node."""
        return self.cluster_id is not None or self.node_id != NO_NODE

    @property
    def ids(self) -> ClusterDescription:
        """The cluster and the node that the request names."""
        return ClusterDescription(self.cluster_id, self.node_id)

    @property
    def is_half_identified(self) -> bool:
        """Whether the request names exactly one of cluster and node."""
        return (self.cluster_id is None) != (self.node_id == NO_NODE)


class HeaderOffer(NamedTuple):
    """The part of an advertisement that is on request header v3.

    `offered` are pairs of an API key and the API's lowest version on header v3. `withheld` are the keys of
    APIs that have such a version while their advertised range ends below it; empty if nothing is offered.
    """

    offered: tuple[tuple[int, int], ...] = ()
    withheld: tuple[int, ...] = ()


AdvertisedRanges = tuple[tuple[int, int, int], ...]
"""Advertised ranges: (API key, lowest version, highest version)."""


Features = tuple[tuple[str, int, int], ...]
"""Features of a broker: (name, lowest level, highest level)."""


class Advertisement(msgspec.Struct, frozen=True, array_like=True, tag="advertisement", gc=False):
    """An ApiVersions response.

    A refusal that can only be read behind response header v1 has the `body_version` OTHER_HEADER. One whose
    bytes behind the error code fit neither version 0 nor the request's has NO_LAYOUT: KIP-35 fixes the place
    of the error code for all versions.
    `header_offer` says which of the ranges reach request header v3. The features are those that the broker
    supports and those that are finalized (KIP-584). The epoch of the finalized ones is left out, since it
    moves with any change of the cluster's metadata.
    """

    error_code: int
    body_version: int
    ranges: AdvertisedRanges
    header_offer: HeaderOffer = HeaderOffer()
    supported_features: Features = ()
    finalized_features: Features = ()

    @property
    def refuses_version(self) -> bool:
        """Whether it refuses the version of the request, in a way that a client can read."""
        return self.error_code == UNSUPPORTED_VERSION and self.body_version != NO_LAYOUT


class Heartbeat(msgspec.Struct, frozen=True, array_like=True, tag="heartbeat", gc=False):
    """A group heartbeat request. `is_well_formed` means that nothing but its member ID can be wrong.

    `member_id` is None where the bytes hold a null. No schema allows a null there, so such a frame cannot be
    decoded and the other fields are unknown.
    """

    member_id: str | None
    group_id: str | None = None
    member_epoch: int | None = None
    is_well_formed: bool = False

    @property
    def has_member_id(self) -> bool:
        """Whether the member ID names a member. Like the broker, this ignores characters up to U+0020."""
        return not is_blank(self.member_id)


class HeartbeatResponse(msgspec.Struct, frozen=True, array_like=True, tag="heartbeat-response", gc=False):
    """A group coordinator's response to a heartbeat. `heartbeat_interval` is in milliseconds."""

    error_code: int
    member_id: str | None
    heartbeat_interval: int


class TelemetryIdentity(msgspec.Struct, frozen=True, array_like=True, tag="telemetry", gc=False):
    """The client instance ID in the body of a telemetry request or response, as Kafka writes it (KIP-714)."""

    instance_id: str


class MemberRequest(msgspec.Struct, frozen=True, array_like=True, tag="member-request", gc=False):
    """A request, other than a heartbeat, that a group member sends: an offset commit or a Share request.

    An offset commit is one only if its member ID has at most LONGEST_OWN_MEMBER_ID bytes.
    """

    group_id: str | None
    member_id: str


class ClassicGroup(msgspec.Struct, frozen=True, array_like=True, tag="classic-group", gc=False):
    """The group that a JoinGroup or LeaveGroup request names, one of the classic protocol.

    The member ID is left out: no rule reads it, and without it the requests of a group's members are equal.
    """

    group_id: str


class Principal(msgspec.Struct, frozen=True, array_like=True, tag="principal", gc=False):
    """The name under which the client logs in. Whether it is let in is what the broker says afterwards."""

    name: str


class Placement(msgspec.Struct, frozen=True, array_like=True, tag="placement", gc=False):
    """Where the client runs, as `decoders.frame.record` writes it; empty takes back what was said."""

    name: str


class ClusterDescription(msgspec.Struct, frozen=True, array_like=True, tag="cluster", gc=False):
    """The cluster and node IDs that a broker gives in a Metadata or DescribeCluster response without error.

    `node_id` is that of the only broker listed under the address the client is connected to, NO_NODE if
    there is none or more than one. `named` lists, in ascending order, the brokers that may be behind that
    address although their host is a name: those with its port. At most NAMED_LIMIT of them are kept.
    """

    cluster_id: str | None
    node_id: NodeId
    named: tuple[NodeId, ...] = ()

    def is_meant_by(self, claim: SoftwareClaim | ClusterDescription) -> bool | None:
        """Whether a client that makes this claim means to reach this broker, None if it is not known."""
        if self.cluster_id is None:
            return None
        if self.cluster_id != claim.cluster_id:
            return False
        return None if self.node_id == NO_NODE else self.node_id == claim.node_id


Body = (
    SoftwareClaim
    | Advertisement
    | Heartbeat
    | HeartbeatResponse
    | ClusterDescription
    | TelemetryIdentity
    | MemberRequest
    | ClassicGroup
    | Principal
    | Placement
)
