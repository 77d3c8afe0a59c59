"""Makes the claims of one connection, observation by observation, from the conversation's facts.

    observation    what is claimed
    REQUEST        the instance ID, the client ID and each member ID when first shown; the instance ID again
                   with the software, the client ID when ApiVersions is asked, a member when it leaves;
                   an ApiVersions request that comes again after refusals in a row
    RESPONSE       what the server advertises, or withheld before the login; a refusal with error 35; IDs
                   that it rejects with error 129; a new description of the broker; that the server serves
                   the connection; the client ID again when the connection negotiated anything new
    NOT_KAFKA      a peer that speaks another protocol
    CLOSED         all identities, for the last time; IDs that the broker accepted; what the broker closed
                   upon; that the client only asked for the versions
    GAP, INVALID_SIZE   nothing; earlier refusals are forgotten

A claim says for how long its identity was shown. `latest` claims again what was shown since. `ClaimTracker`
decides when, `ConnectionClaims` writes the claims.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from decoders.frame.record import Kind, host_of
from decoders.protocol import (
    API_VERSIONS,
    JOINING,
    NO_ERROR,
    REBOOTSTRAP_REQUIRED,
)
from decoders.wire.framing import PREFIX
from expectations.conversation.bodies import (
    AdvertisedRanges,
    Advertisement,
    ClusterDescription,
    Heartbeat,
    SoftwareClaim,
)
from expectations.conversation.conversation import Conversation
from expectations.conversation.members import Member, member_name, split_name
from expectations.conversation.observation import Observation
from expectations.conversation.progress import Shown
from expectations.identity.claim import (
    Claim,
    Foreign,
    Identity,
    IdentityKind,
    Membership,
    Refused,
    Route,
)
from expectations.identity.server_claim import advertised_claim, is_remembered, service_claim
from expectations.identity.shown import (
    ShownIdentities,
    ShownIdentity,
    advertised_range,
    is_advertised,
    is_behind,
    is_refusal,
    may_describe,
    negotiated_after,
    offered_range,
    rejected_ids,
)

WITHHELD_LIMIT: Final = 16
"""APIs that a claim names of those that a list lacked."""


class ClaimTracker:
    """Makes the claims of one connection."""

    def __init__(self, identities: ShownIdentities, conversation: Conversation) -> None:
        self._identities = identities
        self._conversation = conversation
        self._progress = conversation.progress
        self._claims = ConnectionClaims(identities, conversation)

    def process(self, observation: Observation) -> Iterator[Claim]:
        """Process an observation after the conversation has, and yield new claims."""
        match observation.kind:
            case Kind.REQUEST:
                yield from self._process_instance(observation)
                yield from self._process_member(observation)
                yield from self._process_client(observation)
                yield from self._process_repeated(observation)
            case Kind.RESPONSE:
                yield from self._process_response(observation)
            case Kind.NOT_KAFKA:
                yield self._claims.of_foreign_peer(observation)
            case Kind.GAP | Kind.INVALID_SIZE:
                self._identities.refusals.forget()
            case Kind.CLOSED:
                yield from self._process_end(observation)

    def latest(self) -> Iterator[Claim]:
        """Claim again each identity that was shown since its latest claim."""
        identities, progress = self._identities, self._progress
        if is_behind(identities.instance, progress.instance):
            yield self._claims.of_instance()
        if is_behind(identities.client, progress.client):
            yield self._claims.of_client()
        for name, member in identities.members.items():
            if is_behind(member, progress.members[name]):
                yield from self._claims.of_member(name, member)
        yield from self._latest_route()

    def _process_instance(self, request: Observation) -> Iterator[Claim]:
        if self._conversation.instance_id is None:
            return
        if self._identities.instance is None:
            self._identities.instance = self._claims.shown_first(request)
            yield self._claims.of_instance(request)
        elif isinstance(request.body, SoftwareClaim):
            yield self._claims.of_instance()

    def _process_member(self, request: Observation) -> Iterator[Claim]:
        heartbeat = request.body
        if not isinstance(heartbeat, Heartbeat) or not heartbeat.group_id or not heartbeat.has_member_id:
            return
        members, name = self._identities.members, member_name(heartbeat.group_id, heartbeat.member_id or "")
        if name not in members and name in self._progress.members:
            members[name] = member = self._claims.shown_first(request)
            member.began_whole = self._conversation.heartbeats_seen
            member.joins = heartbeat.member_epoch == JOINING
            yield from self._claims.of_member(name, members[name], request)
        if name in members and (heartbeat.member_epoch or 0) < JOINING:
            yield from self._claims.of_member(name, members.pop(name), has_left=True)

    def _process_client(self, request: Observation) -> Iterator[Claim]:
        identities, before = self._identities, self._identities.negotiated
        identities.negotiated = negotiated_after(before, request)
        if not self._conversation.client_id:
            return
        is_new = identities.client is None
        identities.client = identities.client or self._claims.shown_first(request)
        if is_new or identities.negotiated.asked_at != before.asked_at:
            yield self._claims.of_client(request)

    def _process_response(self, response: Observation) -> Iterator[Claim]:
        identities, body, at = self._identities, response.body, response.first_captured_at
        if not response.is_matched:
            return
        yield from self._process_service(at)
        before, asked = identities.negotiated, self._conversation.negotiation.answered
        if isinstance(body, Advertisement):
            if body.error_code == REBOOTSTRAP_REQUIRED:
                ids = asked.claim.ids if asked is not None and asked.claim.gives_ids else None
                identities.negotiated = msgspec.structs.replace(before, rebootstrap_at=at, refused_ids=ids)
                if rejected := rejected_ids(self._conversation):
                    yield self._claims.of_rejection(response, rejected)
            elif body.error_code == NO_ERROR:
                identities.refusals.forget()
                yield self._claims.of_advertisement(response, body.ranges)
                if withheld := self._conversation.withheld_before_login:
                    yield self._claims.of_withholding(response, withheld)
        elif response.api_key == API_VERSIONS:
            yield self._claims.of_advertisement(response, ())
        elif not before.described_at and (self._conversation.described or may_describe(response)):
            identities.negotiated = msgspec.structs.replace(before, described_at=at)
        if identities.negotiated != before and identities.client is not None:
            yield self._claims.of_client()
        if isinstance(body, Advertisement) and body.error_code == NO_ERROR:
            # It makes no claim of its own: rules ask for it once the connection is used.
            identities.negotiated = msgspec.structs.replace(
                identities.negotiated, unidentified=asked is not None and asked.withholds_ids
            )
        if claim := identities.route.process(response, self._conversation):
            yield claim
        if is_refusal(response):
            identities.refusals.process_refusal(response, self._progress.in_flight)
            yield from self._refused_by_error(response)

    def _process_service(self, at: int) -> Iterator[Claim]:
        """Claim once whether the server serves the connection after a login, unless a login may be unseen."""
        conversation, has_login = self._conversation, self._conversation.latest_handshake > 0
        if conversation.admitted and not self._identities.service:
            self._identities.service = True
            if has_login or conversation.unbroken:
                yield service_claim(
                    conversation.cluster,
                    conversation.server,
                    at,
                    conversation.connection,
                    after_login=has_login,
                    told_first=has_login and conversation.told_before_login,
                )

    def _process_end(self, closed: Observation) -> Iterator[Claim]:
        identities, refusals = self._identities, self._identities.refusals
        if refusals.in_a_row and self._conversation.ended:
            identities.negotiated = msgspec.structs.replace(
                identities.negotiated, refused_at=refusals.refused_at, refused_version=refusals.version
            )
        if identities.instance is not None:
            yield self._claims.of_instance(has_left=True)
        if identities.client is not None:
            yield self._claims.of_client(has_left=True)
        for name, member in identities.members.items():
            yield from self._claims.of_member(name, member, has_left=True)
        yield from self._latest_route()
        yield from self._refused_by_closing(closed)
        if self._only_asked:
            yield self._claims.of_question(closed)

    @property
    def _only_asked(self) -> bool:
        """Whether the connection was told the versions and ended, seen whole, without a login or a use."""
        conversation, negotiated = self._conversation, self._identities.negotiated
        if not conversation.ended or not conversation.unbroken or conversation.latest_handshake:
            return False
        return conversation.advertised is not None and not negotiated.used_at

    def _latest_route(self) -> Iterator[Claim]:
        if claim := self._identities.route.latest(self._conversation):
            yield claim

    def _process_repeated(self, request: Observation) -> Iterator[Claim]:
        refusals = self._identities.refusals
        is_repeated = refusals.process_request(request, self._progress.in_flight)
        if is_repeated and not self._conversation.shares_clients:
            refused = refusals.repeated(self._conversation)
            if not is_advertised(refused):
                yield from self._claims.of_refusal(request, refused)

    def _refused_by_closing(self, closed: Observation) -> Iterator[Claim]:
        closed_upon, refusals = self._conversation.closed_upon, self._identities.refusals
        if closed_upon is None or not is_remembered(*closed_upon):
            return
        if not refusals.is_malformed:
            yield from self._claims.of_refusal(closed, refusals.by_closing(closed_upon, self._conversation))

    def _refused_by_error(self, response: Observation) -> Iterator[Claim]:
        """Claim error 35. ApiVersions is refused as KIP-511 says, unless the broker offers that version."""
        key, version = response.api_key, response.api_version
        advertised = advertised_range(self._conversation, key)
        if key == API_VERSIONS and advertised is None:
            advertised = offered_range(self._conversation)
        refused = Refused(key, version, by_error=True, advertised=advertised)
        if key != API_VERSIONS or is_advertised(refused):
            yield from self._claims.of_refusal(response, refused)


class ConnectionClaims:
    """The claims of one connection, as its facts are now. Each claim of an identity is counted there."""

    def __init__(self, identities: ShownIdentities, conversation: Conversation) -> None:
        self._identities = identities
        self._conversation = conversation
        self._progress = conversation.progress

    def of_advertisement(self, response: Observation, ranges: AdvertisedRanges) -> Claim:
        """Claim what the server advertised in a response; without ranges if that could not be read."""
        conversation, at = self._conversation, response.first_captured_at
        server, witness = conversation.server, conversation.connection
        return advertised_claim(conversation.cluster, server, ranges, at, witness)

    def of_instance(self, request: Observation | None = None, *, has_left: bool = False) -> Claim:
        """Claim the client instance ID; `request` is the first that shows it."""
        instance_id, shown = self._conversation.instance_id, self._progress.instance
        assert instance_id is not None and shown is not None and self._identities.instance is not None
        identity = self._identity(IdentityKind.INSTANCE, instance_id.hex())
        return self._claim(identity, self._identities.instance, shown, request, has_left)

    def of_member(
        self, name: str, member: ShownIdentity, request: Observation | None = None, *, has_left: bool = False
    ) -> Iterator[Claim]:
        """Claim the member ID and, if there is one, the client instance ID in the group."""
        group_id, member_id = split_name(name)
        identity, shown = self._identity(IdentityKind.MEMBER, name), self._progress.members[name]
        claim = msgspec.structs.replace(
            self._claim(identity, member, shown, request, has_left),
            group_id=group_id,
            member_id=member_id,
            membership=self._membership(name, joins=member.joins),
            whole=self._conversation.heartbeats_seen,
        )
        yield claim
        if self._conversation.instance_id is not None:
            instance = f"{self._conversation.instance_id.hex()}\0{group_id}"
            identity = self._identity(IdentityKind.MEMBERSHIP, instance)
            yield msgspec.structs.replace(claim, identity=identity)

    def _membership(self, name: str, *, joins: bool) -> Membership:
        facts = self._conversation.members.known.get(name) or Member()
        return Membership(
            joins=joins,
            epoch=facts.epoch,
            error_code=facts.error_code if facts.answered else None,
            silence=self._progress.captured_at - self._progress.members[name].until,
            joined_as=facts.joined_as,
        )

    def of_client(self, request: Observation | None = None, *, has_left: bool = False) -> Claim:
        """Claim the client ID at the client's address, with how the connection negotiated."""
        host, shown = host_of(self._conversation.client), self._progress.client
        assert shown is not None and self._identities.client is not None
        identity = self._identity(IdentityKind.CLIENT, f"{host}\0{self._conversation.client_id}")
        claim = self._claim(identity, self._identities.client, shown, request, has_left)
        claim = msgspec.structs.replace(
            claim,
            negotiated=self._identities.negotiated,
            first_correlation_id=self._conversation.first_correlation_id,
            gives_client_id_once=self._conversation.gives_client_id_once,
        )
        if len(self._conversation.members.known) != 1 or self._conversation.members.hidden:
            return claim
        (name,) = self._conversation.members.known
        member = self._identities.members.get(name)
        membership = self._membership(name, joins=member is not None and member.joins)
        return msgspec.structs.replace(claim, only_member=name, membership=membership)

    def of_refusal(self, observation: Observation, refused: Refused) -> Iterator[Claim]:
        """Claim that the server refused a request, unless enough of its kind were claimed."""
        if not self._identities.refusals.claim(refused):
            return
        claim = self._of_server(IdentityKind.BROKER, observation)
        key, version = refused.request
        yield msgspec.structs.replace(claim, refused=refused, api_key=key, api_version=version)

    def of_question(self, closed: Observation) -> Claim:
        """Claim that the client only asked the server for its versions."""
        return msgspec.structs.replace(self._of_server(IdentityKind.BROKER, closed), only_asked=True)

    def of_withholding(self, response: Observation, withheld: tuple[int, ...]) -> Claim:
        """Claim that the list before the login lacked versions of these APIs."""
        claim = self._of_server(IdentityKind.BROKER, response)
        return msgspec.structs.replace(claim, withheld=withheld[:WITHHELD_LIMIT])

    def of_rejection(self, response: Observation, ids: ClusterDescription) -> Claim:
        """Claim that the broker told a client with these IDs to rebootstrap."""
        claim = self._of_server(IdentityKind.ROUTE, response)
        return msgspec.structs.replace(claim, route=Route(rejected=ids))

    def of_foreign_peer(self, opening: Observation) -> Claim:
        """Claim that the client opened with bytes that are no Kafka."""
        claim = self._of_server(IdentityKind.LISTENER, opening)
        foreign = Foreign(opening.size.to_bytes(PREFIX), opening.named_port, opening.responded)
        return msgspec.structs.replace(claim, foreign=foreign, has_left=not opening.responded)

    def _of_server(self, kind: IdentityKind, observation: Observation) -> Claim:
        """Claim what one observation shows of the server."""
        identity = self._identity(kind, self._conversation.server)
        shown = Shown(observation.first_captured_at, observation.first_captured_at)
        return self._claim(identity, self.shown_first(observation), shown, observation, has_left=True)

    def shown_first(self, observation: Observation) -> ShownIdentity:
        """Begin to keep an identity that an observation shows first."""
        return ShownIdentity(
            observation.first_sequence,
            observation.first_captured_at,
            observation.api_key,
            observation.api_version,
            self._conversation.unbroken,
        )

    def _identity(self, kind: IdentityKind, name: str) -> Identity:
        return Identity(kind, self._conversation.cluster, name)

    def _claim(
        self,
        identity: Identity,
        first: ShownIdentity,
        shown: Shown,
        observation: Observation | None,
        has_left: bool,
    ) -> Claim:
        conversation = self._conversation
        initial = conversation.first_request if conversation.first_is_known else None
        first.claims += 1
        first.claimed_until = shown.until
        return Claim(
            identity=identity,
            connection=conversation.connection,
            first_sequence=first.first_sequence,
            as_of=first.claims,
            client=conversation.client,
            server=conversation.server,
            opened_at=conversation.opened_at,
            since=first.since,
            until=shown.until,
            before_until=shown.before_until,
            has_left=has_left,
            began_whole=first.began_whole,
            whole=conversation.unbroken,
            evidence=observation.evidence if observation is not None and first.claims == 1 else None,
            api_key=first.api_key,
            api_version=first.api_version,
            client_id=conversation.client_id,
            initial_client_id=initial.client_id if initial else None,
            first_is_known=initial is not None,
            software=conversation.software,
            instance_id=conversation.instance_id,
            joined=conversation.joined,
            principal=conversation.principal,
            placement=conversation.placement,
        )
