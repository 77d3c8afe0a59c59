"""The claim tracker: which identities a connection shows, and when it makes a claim of one.

It works on the conversation's facts, observation by observation. A claim is made when an identity appears,
when what is claimed of it changes, and when it leaves. For how long it was shown goes with those claims.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from decoders.frame.record import Kind
from decoders.protocol import (
    API_VERSIONS,
    JOINING,
    NO_ERROR,
    REBOOTSTRAP_REQUIRED,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    UNSUPPORTED_VERSION,
)
from decoders.wire.assembly import PREFIX
from expectations.conversation.bodies import Advertisement, ClusterDescription, Heartbeat, SoftwareClaim
from expectations.conversation.conversation import Conversation
from expectations.conversation.members import member_name
from expectations.conversation.observation import Observation
from expectations.conversation.progress import Shown
from expectations.identity.claim import (
    Claim,
    Foreign,
    Identity,
    IdentityKind,
    Membership,
    Negotiated,
    Refused,
)
from expectations.identity.refusals import is_told, told_range
from expectations.identity.server_claim import advertised_claim
from expectations.identity.shown import ShownIdentities, ShownIdentity, is_behind

_OPENING_APIS = (API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE)
"""What a connection may begin with. Any other request is a use of it."""


class ClaimTracker:
    """Makes the claims of one connection."""

    def __init__(self, identities: ShownIdentities, conversation: Conversation) -> None:
        self._identities = identities
        self._conversation = conversation
        self._progress = conversation.progress

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
                yield self._foreign(observation)
            case Kind.GAP | Kind.INVALID_SIZE:
                self._identities.refusals.forget()
            case Kind.CLOSED:
                yield from self._process_end(observation)

    def latest(self) -> Iterator[Claim]:
        """Claim again each identity that was shown since its latest claim."""
        identities, progress = self._identities, self._progress
        if is_behind(identities.instance, progress.instance):
            yield self._instance_claim()
        if is_behind(identities.client, progress.client):
            yield self._client_claim()
        for name, member in identities.members.items():
            if is_behind(member, progress.members[name]):
                yield from self._member_claims(name, member)
        yield from self._latest_route()

    def _process_instance(self, request: Observation) -> Iterator[Claim]:
        if self._conversation.instance_id is None:
            return
        if self._identities.instance is None:
            self._identities.instance = self._shown_first(request)
            yield self._instance_claim(request)
        elif isinstance(request.body, SoftwareClaim):
            yield self._instance_claim()

    def _process_member(self, request: Observation) -> Iterator[Claim]:
        heartbeat = request.body
        if not isinstance(heartbeat, Heartbeat) or not heartbeat.group_id or not heartbeat.has_member_id:
            return
        members, name = self._identities.members, member_name(heartbeat.group_id, heartbeat.member_id or "")
        if name not in members and name in self._progress.members:
            members[name] = self._shown_first(request)
            members[name].joins = heartbeat.member_epoch == JOINING
            yield from self._member_claims(name, members[name], request)
        if name in members and (heartbeat.member_epoch or 0) < JOINING:
            yield from self._member_claims(name, members.pop(name), has_left=True)

    def _process_client(self, request: Observation) -> Iterator[Claim]:
        identities, before = self._identities, self._identities.negotiated
        identities.negotiated = _negotiated_after(before, request)
        if not self._conversation.client_id:
            return
        is_new = identities.client is None
        identities.client = identities.client or self._shown_first(request)
        if is_new or identities.negotiated.asked_at != before.asked_at:
            yield self._client_claim(request)

    def _process_response(self, response: Observation) -> Iterator[Claim]:
        identities, body, at = self._identities, response.body, response.first_captured_at
        if not response.is_matched:
            return
        before = identities.negotiated
        if isinstance(body, Advertisement):
            if body.error_code == REBOOTSTRAP_REQUIRED:
                identities.negotiated = msgspec.structs.replace(
                    before, rebootstrap_at=at, refused_ids=self._asked_ids()
                )
            elif body.error_code == NO_ERROR:
                identities.refusals.forget()
                yield self._advertised(response, body)
        elif self._conversation.described is not None and not before.described_at:
            identities.negotiated = msgspec.structs.replace(before, described_at=at)
        if identities.negotiated != before and identities.client is not None:
            yield self._client_claim()
        if claim := identities.route.process(response, self._conversation):
            yield claim
        if _is_refusal(response):
            identities.refusals.process_refusal(response, self._progress.in_flight)
            yield from self._refused_by_error(response)

    def _process_end(self, closed: Observation) -> Iterator[Claim]:
        identities, refusals = self._identities, self._identities.refusals
        if refusals.in_a_row and self._conversation.ended:
            identities.negotiated = msgspec.structs.replace(
                identities.negotiated, refused_at=refusals.refused_at, refused_version=refusals.version
            )
        if identities.instance is not None:
            yield self._instance_claim(has_left=True)
        if identities.client is not None:
            yield self._client_claim(has_left=True)
        for name, member in identities.members.items():
            yield from self._member_claims(name, member, has_left=True)
        yield from self._latest_route()
        yield from self._refused_by_closing(closed)

    def _asked_ids(self) -> ClusterDescription | None:
        """Return the cluster and node that the request of the latest response named."""
        asked = self._conversation.negotiation.answered
        return asked.claim.ids if asked is not None and asked.claim.gives_ids else None

    def _latest_route(self) -> Iterator[Claim]:
        if claim := self._identities.route.latest(self._conversation):
            yield claim

    def _process_repeated(self, request: Observation) -> Iterator[Claim]:
        refusals = self._identities.refusals
        if refusals.process_request(request, self._progress.in_flight):
            refused = refusals.repeated(self._conversation)
            if not is_told(refused):
                yield from self._refused(request, refused)

    def _refused_by_closing(self, closed: Observation) -> Iterator[Claim]:
        closed_upon, refusals = self._conversation.closed_upon, self._identities.refusals
        if closed_upon is not None:
            yield from self._refused(closed, refusals.by_closing(closed_upon, self._conversation))

    def _refused_by_error(self, response: Observation) -> Iterator[Claim]:
        """Claim error 35. ApiVersions is refused as KIP-511 says, unless the broker offers that version."""
        key, version = response.api_key, response.api_version
        refused = Refused(key, version, by_error=True, told=told_range(self._conversation, key))
        if key != API_VERSIONS or is_told(refused):
            yield from self._refused(response, refused)

    def _advertised(self, response: Observation, body: Advertisement) -> Claim:
        conversation, at = self._conversation, response.first_captured_at
        server, witness = conversation.server, conversation.connection
        return advertised_claim(conversation.cluster, server, body.ranges, at, witness)

    def _instance_claim(self, request: Observation | None = None, *, has_left: bool = False) -> Claim:
        instance_id, shown = self._conversation.instance_id, self._progress.instance
        assert instance_id is not None and shown is not None and self._identities.instance is not None
        identity = self._identity(IdentityKind.INSTANCE, instance_id.hex())
        return self._claim(identity, self._identities.instance, shown, request, has_left)

    def _member_claims(
        self, name: str, member: ShownIdentity, request: Observation | None = None, *, has_left: bool = False
    ) -> Iterator[Claim]:
        """Claim the member ID and, if there is one, the client instance ID in the group."""
        group_id, _, member_id = name.partition("\0")
        identity, shown = self._identity(IdentityKind.MEMBER, name), self._progress.members[name]
        claim = msgspec.structs.replace(
            self._claim(identity, member, shown, request, has_left),
            group_id=group_id,
            member_id=member_id,
            membership=self._membership(group_id, member_id, member, shown),
        )
        yield claim
        if self._conversation.instance_id is not None:
            instance = f"{self._conversation.instance_id.hex()}\0{group_id}"
            identity = self._identity(IdentityKind.MEMBERSHIP, instance)
            yield msgspec.structs.replace(claim, identity=identity)

    def _membership(self, group_id: str, member_id: str, member: ShownIdentity, shown: Shown) -> Membership:
        facts = self._conversation.members.of(group_id, member_id)
        return Membership(
            joins=member.joins,
            epoch=facts.epoch,
            error_code=facts.error_code if facts.answered else None,
            silence=self._progress.captured_at - shown.until,
        )

    def _client_claim(self, request: Observation | None = None, *, has_left: bool = False) -> Claim:
        host, shown = self._conversation.client.rpartition(":")[0], self._progress.client
        assert shown is not None and self._identities.client is not None
        identity = self._identity(IdentityKind.CLIENT, f"{host}\0{self._conversation.client_id}")
        claim = self._claim(identity, self._identities.client, shown, request, has_left)
        return msgspec.structs.replace(claim, negotiated=self._identities.negotiated)

    def _refused(self, observation: Observation, refused: Refused) -> Iterator[Claim]:
        if not self._identities.refusals.claim(refused):
            return
        identity = self._identity(IdentityKind.BROKER, self._conversation.server)
        first = self._shown_first(observation)
        first.api_key, first.api_version = refused.api_key, refused.api_version
        shown = Shown(observation.first_captured_at, observation.first_captured_at)
        claim = self._claim(identity, first, shown, observation, has_left=True)
        yield msgspec.structs.replace(claim, refused=refused)

    def _foreign(self, opening: Observation) -> Claim:
        identity = self._identity(IdentityKind.LISTENER, self._conversation.server)
        shown = Shown(opening.first_captured_at, opening.first_captured_at)
        foreign = Foreign(opening.size.to_bytes(PREFIX), opening.named_port, opening.responded)
        has_left = not opening.responded
        claim = self._claim(identity, self._shown_first(opening), shown, opening, has_left)
        return msgspec.structs.replace(claim, foreign=foreign)

    def _shown_first(self, observation: Observation) -> ShownIdentity:
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
        )


def _is_refusal(response: Observation) -> bool:
    body = response.body
    if isinstance(body, Advertisement):
        return body.error_code == UNSUPPORTED_VERSION
    return response.errors == (UNSUPPORTED_VERSION,)


def _negotiated_after(before: Negotiated, request: Observation) -> Negotiated:
    at = request.first_captured_at
    if request.api_key == API_VERSIONS and not before.asked_at:
        return msgspec.structs.replace(before, asked_at=at)
    if request.api_key not in _OPENING_APIS and not before.used_at:
        return msgspec.structs.replace(before, used_at=at)
    return before
