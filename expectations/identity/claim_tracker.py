"""The claim tracker: which identities a connection shows, and when it makes a claim of one.

It works on the conversation's facts, observation by observation. A claim is made when an identity appears,
when what is claimed of it changes, and when it leaves. Each claim says for how long it was shown.
`connection_claims.py` writes the claims.
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
from expectations.conversation.bodies import Advertisement, ClusterDescription, Heartbeat, SoftwareClaim
from expectations.conversation.conversation import Conversation
from expectations.conversation.members import member_name
from expectations.conversation.observation import Observation
from expectations.identity.claim import Claim, Negotiated, Refused
from expectations.identity.connection_claims import ConnectionClaims
from expectations.identity.refusals import is_told, offered_range, told_range
from expectations.identity.server_claim import is_remembered
from expectations.identity.shown import ShownIdentities, is_behind

_OPENING_APIS = (API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE)
"""What a connection may begin with. Any other request is a use of it."""


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
            members[name] = self._claims.shown_first(request)
            members[name].joins = heartbeat.member_epoch == JOINING
            yield from self._claims.of_member(name, members[name], request)
        if name in members and (heartbeat.member_epoch or 0) < JOINING:
            yield from self._claims.of_member(name, members.pop(name), has_left=True)

    def _process_client(self, request: Observation) -> Iterator[Claim]:
        identities, before = self._identities, self._identities.negotiated
        identities.negotiated = _negotiated_after(before, request)
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
        before = identities.negotiated
        if isinstance(body, Advertisement):
            if body.error_code == REBOOTSTRAP_REQUIRED:
                identities.negotiated = msgspec.structs.replace(
                    before, rebootstrap_at=at, refused_ids=self._asked_ids()
                )
            elif body.error_code == NO_ERROR:
                identities.refusals.forget()
                yield self._claims.of_advertisement(response, body)
        elif self._conversation.described is not None and not before.described_at:
            identities.negotiated = msgspec.structs.replace(before, described_at=at)
        if identities.negotiated != before and identities.client is not None:
            yield self._claims.of_client()
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
            yield self._claims.of_instance(has_left=True)
        if identities.client is not None:
            yield self._claims.of_client(has_left=True)
        for name, member in identities.members.items():
            yield from self._claims.of_member(name, member, has_left=True)
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
        told = told_range(self._conversation, key)
        if key == API_VERSIONS and told is None:
            told = offered_range(self._conversation)
        refused = Refused(key, version, by_error=True, told=told)
        if key != API_VERSIONS or is_told(refused):
            yield from self._claims.of_refusal(response, refused)


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
