"""The identities that one connection shows, the refusals that it got, and what was last claimed of each.

This is the state of `ClaimTracker`. An identity is *behind* while it was shown since its latest claim.

A refusal is seen in two ways: error 35, and a close by the broker while one request is in flight. A close has
many reasons, so what it refused is judged by the versions that are known for the server's address.

The *route* is which broker of which cluster is behind the server's address: the broker accepts or rejects the
IDs that a client gives, or describes itself.
"""

from __future__ import annotations

from typing import Final

import msgspec

from decoders.protocol import API_VERSIONS, DESCRIBE_CLUSTER, METADATA, OPENING_APIS, UNSUPPORTED_VERSION
from expectations.conversation.bodies import Advertisement, ClusterDescription, SoftwareClaim
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.conversation.own_values import ApiKey, Count, Few, MemberName, SequenceNumber, Time, Version
from expectations.conversation.progress import ApiVersion, InFlight, Shown
from expectations.identity.claim import NOT_LISTED, Claim, Identity, IdentityKind, Negotiated, Refused, Route
from expectations.identity.server_claim import claim_of_server, number_of

VERSIONS_LIMIT: Final = 8
"""API versions whose refusals are claimed of one connection."""
REFUSALS_LIMIT: Final = 3
"""Refusals of one ApiVersions version that are claimed of one connection. For other APIs only the first
one is claimed, since equal responses fold."""
ENOUGH: Final = 2
"""Refusals in a row after which a request must not be sent again."""


class ShownIdentity(msgspec.Struct, array_like=True):
    """Where a connection first showed an identity, and what was last claimed of it.

    `began_whole` means that nothing was missed before. `claims` counts the claims made, `claimed_until` is
    the time up to which the latest one holds; both times are in nanoseconds since the epoch. `joins` is True
    for a member that joined its group there.
    """

    first_sequence: SequenceNumber
    since: Time
    api_key: ApiKey
    api_version: Version
    began_whole: bool
    claims: Count = 0
    claimed_until: Time = 0
    joins: bool = False


class Refusals(msgspec.Struct, array_like=True):
    """The refusals of one connection, forgotten at a loss and when a version is accepted.

    `version`, `asked_at`, `is_whole` and `on_header_v3` are those of the latest ApiVersions request. A
    request that was read to its last byte is one of the last two: `on_header_v3`, or `is_whole` on an older
    header; `is_newer` is one of a version that no schema has, on a header that each broker reads.
    `in_a_row` counts how often error 35 refused that version, each time before it was asked again,
    and `refused_at` is the time of the latest such refusal. Any other request sets the count to 0. `claimed`
    counts the claims by API version. `is_malformed` says that the latest request, of any API, could not be
    decoded: a close upon it refuses no version. `is_unread` says that it was cut: it may be malformed.
    `is_unknown` says that no schema has its version.
    """

    version: Version = -1
    asked_at: Time = 0
    is_whole: bool = False
    in_a_row: Count = 0
    refused_at: Time = 0
    claimed: dict[ApiVersion, Few] = {}
    is_malformed: bool = False
    on_header_v3: bool = False
    is_newer: bool = False
    is_unread: bool = False
    is_unknown: bool = False

    def process_request(self, request: Observation, in_flight: InFlight) -> bool:
        """Process a request, and return whether it was sent once more after ENOUGH refusals in a row."""
        self.is_malformed = request.failure is not None
        self.is_unread, self.is_unknown = request.is_partly_read, not request.known
        if (request.api_key, request.api_version) != (API_VERSIONS, self.version):
            self.in_a_row = 0
        if request.api_key != API_VERSIONS:
            return False
        self.version, self.asked_at = request.api_version, request.first_captured_at
        self.is_whole = request.is_clean and not request.uses_header_v3
        self.on_header_v3 = request.is_clean and request.uses_header_v3
        self.is_newer = _is_newer(request)
        return self.in_a_row == ENOUGH and in_flight.counts.get((API_VERSIONS, self.version)) == 1

    def process_refusal(self, response: Observation, in_flight: InFlight) -> None:
        """Process error 35 to ApiVersions, which counts only if the version is not in flight again."""
        version = response.api_key, response.api_version
        if version == (API_VERSIONS, self.version) and not in_flight.may_include(version):
            self.in_a_row += 1
            self.refused_at = response.first_captured_at

    def forget(self) -> None:
        """Process a loss, or a response that accepts: no refusals are in a row."""
        self.version, self.asked_at = -1, 0
        self.is_whole = self.on_header_v3 = self.is_newer = False
        self.is_malformed = self.is_unread = self.is_unknown = False
        self.in_a_row = self.refused_at = 0

    def claim(self, refused: Refused) -> bool:
        """Return whether a refusal is to be claimed, and count it."""
        count = self.claimed.get(refused.request, 0)
        limit = REFUSALS_LIMIT if refused.api_key == API_VERSIONS else 1
        if count >= limit or (not count and len(self.claimed) >= VERSIONS_LIMIT):
            return False
        self.claimed[refused.request] = count + 1
        return True

    def by_closing(self, closed_upon: ApiVersion, conversation: Conversation) -> Refused:
        """Describe the only request in flight when the broker closed the connection."""
        is_negotiation = closed_upon[0] == API_VERSIONS
        return Refused(
            *closed_upon,
            advertised=advertised_range(conversation, closed_upon[0]),
            asked_at=self.asked_at if is_negotiation else conversation.opened_at,
            is_whole=is_negotiation and self.is_whole,
            served=conversation.has_served(closed_upon),
            on_header_v3=is_negotiation and self.on_header_v3,
            admitted=conversation.admitted,
            shook_hands=conversation.latest_handshake > 0,
            is_newer=is_negotiation and self.is_newer,
            is_unread=self.is_unread,
            is_unknown=self.is_unknown,
        )

    def repeated(self, conversation: Conversation) -> Refused:
        """Describe the ApiVersions request that was sent once more after ENOUGH refusals."""
        advertised = advertised_range(conversation, API_VERSIONS) or offered_range(conversation)
        return Refused(API_VERSIONS, self.version, True, advertised, self.asked_at, ENOUGH + 1, self.is_whole)


class ShownRoute(msgspec.Struct, omit_defaults=True):
    """What one connection showed of the route to its server.

    `accepted` are IDs that the broker accepted in the response `accepted_sequence`, and that nothing on the
    connection was compared with yet. `claimed` is the latest description that was claimed.
    """

    accepted: ClusterDescription | None = None
    accepted_sequence: SequenceNumber = 0
    claimed: ClusterDescription | None = None

    def process(self, response: Observation, conversation: Conversation) -> Claim | None:
        """Process a response after the conversation has. Returns the claim of a new description."""
        if conversation.negotiation.accepts_ids(response):
            asked = conversation.negotiation.answered
            assert asked is not None
            self.accepted = asked.claim.ids
            self.accepted_sequence = response.first_sequence
        if self.accepted is not None and comparable_description(conversation, self.accepted):
            self.accepted = None
        described = conversation.described
        if described is None or described == self.claimed:
            return None
        self.claimed = described
        return _route_claim(conversation, Route(described=described), response.first_captured_at)

    def latest(self, conversation: Conversation) -> Claim | None:
        """Claim the accepted IDs that nothing on the connection was compared with.

        Brokers do not compare IDs before authentication, so acceptance before SaslHandshake shows nothing.
        """
        accepted, self.accepted = self.accepted, None
        if accepted is None or self.accepted_sequence < conversation.latest_handshake:
            return None
        return _route_claim(conversation, Route(accepted=accepted), conversation.progress.captured_at)


class ShownIdentities(msgspec.Struct, omit_defaults=True):
    """The identities that one connection shows. `members` is keyed by `member_name`.

    `service` says that it was claimed whether the server served the connection after a login or without one.
    """

    instance: ShownIdentity | None = None
    client: ShownIdentity | None = None
    members: dict[MemberName, ShownIdentity] = {}
    negotiated: Negotiated = Negotiated()
    route: ShownRoute = msgspec.field(default_factory=ShownRoute)
    refusals: Refusals = msgspec.field(default_factory=Refusals)
    service: bool = False


def negotiated_after(before: Negotiated, request: Observation) -> Negotiated:
    """Return when a connection negotiated, after another request."""
    at = request.first_captured_at
    if request.api_key == API_VERSIONS and not before.asked_at:
        return msgspec.structs.replace(before, asked_at=at)
    if request.api_key not in OPENING_APIS and not before.used_at:
        return msgspec.structs.replace(before, used_at=at, first_use=request.api_key)
    return before


def may_describe(response: Observation) -> bool:
    """Whether a response that was cut described the cluster to the client."""
    return response.cut and response.errors is None and response.api_key in (METADATA, DESCRIBE_CLUSTER)


def is_refusal(response: Observation) -> bool:
    """Whether a response refuses its request with error 35."""
    body = response.body
    if isinstance(body, Advertisement):
        return body.refuses_version
    return response.errors == (UNSUPPORTED_VERSION,)


def _is_newer(request: Observation) -> bool:
    """Whether no schema has the version of ApiVersions, and its header is one that each broker reads.

    Its client ID is known only if the whole header was read.
    """
    is_sound = not request.cut and request.failure is None and request.client_id is not None
    return is_sound and not request.known and request.api_version >= 0


def is_behind(identity: ShownIdentity | None, shown: Shown | None) -> bool:
    """Whether an identity was shown since it was last claimed."""
    return identity is not None and shown is not None and identity.claimed_until != shown.until


def advertised_range(conversation: Conversation, api_key: int) -> tuple[int, int] | None:
    """Return the range that was advertised on a connection for an API; None if nothing was advertised."""
    advertised = conversation.advertised
    return advertised.ranges.get(api_key, NOT_LISTED) if advertised else None


def offered_range(conversation: Conversation) -> tuple[int, int] | None:
    """Return the range of ApiVersions that the latest refusal lists; None if it lists none."""
    refusal = conversation.negotiation.refusal
    return refusal.offered if refusal else None


def is_advertised(refused: Refused) -> bool:
    """Whether the broker advertised the version on the connection, if only by the refusal itself."""
    lowest, highest = refused.advertised or NOT_LISTED
    return lowest <= refused.api_version <= highest


def comparable_description(
    conversation: Conversation, ids: SoftwareClaim | ClusterDescription
) -> ClusterDescription | None:
    """Return the description by which IDs can be compared with the broker's own, None if there is none.

    The configuration of the listener comes first, then the broker's description on the connection.
    """
    for described in (conversation.configured, conversation.described):
        if described is not None and described.is_meant_by(ids) is not None:
            return described
    return None


def rejected_ids(conversation: Conversation) -> ClusterDescription | None:
    """Return the IDs of the latest ApiVersions if both are given and cannot be compared on the connection."""
    asked = conversation.negotiation.answered
    if asked is None or not asked.claim.gives_ids or asked.claim.is_half_identified:
        return None
    return None if comparable_description(conversation, asked.claim) else asked.claim.ids


def _route_claim(conversation: Conversation, route: Route, at: int) -> Claim:
    identity = Identity(IdentityKind.ROUTE, conversation.cluster, conversation.server)
    claim = claim_of_server(identity, number_of(route), at)
    return msgspec.structs.replace(claim, route=route, witness=conversation.connection)
