"""The witness of a connection: which identities it shows, and when it tells of them.

Worked out from the conversation's facts, observation by observation. A claim is told when it is new,
when what it says changes, and when it leaves; how long it lasted is told with the rest, not by itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from decoders.frame.record import Kind
from decoders.protocol import (
    API_VERSIONS,
    JOINING,
    REBOOTSTRAP_REQUIRED,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    UNSUPPORTED_VERSION,
)
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Advertisement, Heartbeat, Observation, SoftwareClaim
from expectations.identity.claim import Claim, Identity, IdentityKind, Negotiated, Refused
from expectations.identity.shown import Sighting, Sightings

MEMBER_LIMIT = 64
"""Memberships that are followed on one connection; of another one nothing is told."""
_OPENING_APIS = (API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE)
"""What a connection may begin with; anything else is its use."""


class Witness:
    """Tells the claims of one connection."""

    def __init__(self, sightings: Sightings, conversation: Conversation) -> None:
        self._sightings = sightings
        self._conversation = conversation

    def hear(self, observation: Observation) -> Iterator[Claim]:
        """Take in an observation that the conversation has taken in, and tell what is news."""
        match observation.kind:
            case Kind.REQUEST:
                yield from self._hear_instance(observation)
                yield from self._hear_member(observation)
                yield from self._hear_client(observation)
            case Kind.RESPONSE:
                yield from self._hear_answer(observation)
            case Kind.CLOSED:
                yield from self._hear_end(observation)

    def latest(self) -> Iterator[Claim]:
        """Tell again of the identities that were shown since they were last told of."""
        sightings = self._sightings
        if sightings.instance is not None and sightings.instance.is_behind:
            yield self._instance_claim(sightings.instance)
        if sightings.client is not None and sightings.client.is_behind:
            yield self._client_claim(sightings.client)
        for name, sighting in sightings.members.items():
            if sighting.is_behind:
                yield self._member_claim(name, sighting)

    def _hear_instance(self, request: Observation) -> Iterator[Claim]:
        if self._conversation.instance_id is None:
            return
        if self._sightings.instance is None:
            self._sightings.instance = self._sighting(request)
            yield self._instance_claim(self._sightings.instance, request)
            return
        self._sightings.instance.see_again(request)
        if isinstance(request.body, SoftwareClaim):
            yield self._instance_claim(self._sightings.instance)

    def _hear_member(self, request: Observation) -> Iterator[Claim]:
        beat = request.body
        if not isinstance(beat, Heartbeat) or not beat.group_id or not beat.has_member_id:
            return
        members, name = self._sightings.members, f"{beat.group_id}\0{beat.member_id}"
        if name in members:
            members[name].see_again(request)
        elif len(members) < MEMBER_LIMIT:
            members[name] = self._sighting(request)
            yield self._member_claim(name, members[name], request)
        if name in members and (beat.member_epoch or 0) < JOINING:
            yield self._member_claim(name, members.pop(name), has_left=True)

    def _hear_client(self, request: Observation) -> Iterator[Claim]:
        sightings, before = self._sightings, self._sightings.negotiated
        sightings.negotiated = _negotiated_after(before, request)
        if not self._conversation.client_id:
            return
        is_new = sightings.client is None
        sightings.client = sightings.client or self._sighting(request)
        sightings.client.see_again(request)
        if is_new or sightings.negotiated.asked_at != before.asked_at:
            yield self._client_claim(sightings.client, request)

    def _hear_answer(self, response: Observation) -> Iterator[Claim]:
        sightings, answer, at = self._sightings, response.body, response.first_captured_at
        if not response.is_matched:
            return
        before = sightings.negotiated
        if isinstance(answer, Advertisement):
            if answer.error_code == REBOOTSTRAP_REQUIRED:
                sightings.negotiated = msgspec.structs.replace(before, rebootstrap_at=at)
            elif answer.error_code == UNSUPPORTED_VERSION:
                yield from self._refused_by_error(response)
        elif self._conversation.described is not None and not before.described_at:
            sightings.negotiated = msgspec.structs.replace(before, described_at=at)
        if sightings.negotiated != before and sightings.client is not None:
            yield self._client_claim(sightings.client)

    def _hear_end(self, closed: Observation) -> Iterator[Claim]:
        sightings = self._sightings
        if sightings.instance is not None:
            yield self._instance_claim(sightings.instance, has_left=True)
        if sightings.client is not None:
            yield self._client_claim(sightings.client, has_left=True)
        for name, sighting in sightings.members.items():
            yield self._member_claim(name, sighting, has_left=True)
        yield from self._refused_by_closing(closed)

    def _refused_by_closing(self, closed: Observation) -> Iterator[Claim]:
        refused, conversation = self._conversation.unanswered.only_one, self._conversation
        is_certain = conversation.was_refused_by_closing and conversation.unbroken
        if is_certain and refused is not None and self._is_advertised(*refused):
            yield self._refused(closed, Refused(*refused))

    def _refused_by_error(self, response: Observation) -> Iterator[Claim]:
        if self._is_advertised(response.api_key, response.api_version):
            yield self._refused(response, Refused(response.api_key, response.api_version, by_error=True))

    def _is_advertised(self, api_key: int, api_version: int) -> bool:
        advertised = self._conversation.advertised
        lowest, highest = advertised.ranges.get(api_key, (0, -1)) if advertised else (0, -1)
        return lowest <= api_version <= highest

    def _instance_claim(
        self, sighting: Sighting, shown: Observation | None = None, *, has_left: bool = False
    ) -> Claim:
        assert self._conversation.instance_id is not None
        identity = self._identity(IdentityKind.INSTANCE, self._conversation.instance_id.hex())
        return self._claim(identity, sighting, shown, has_left)

    def _member_claim(
        self, name: str, sighting: Sighting, shown: Observation | None = None, *, has_left: bool = False
    ) -> Claim:
        group_id, _, member_id = name.partition("\0")
        claim = self._claim(self._identity(IdentityKind.MEMBER, name), sighting, shown, has_left)
        return msgspec.structs.replace(claim, group_id=group_id, member_id=member_id)

    def _client_claim(
        self, sighting: Sighting, shown: Observation | None = None, *, has_left: bool = False
    ) -> Claim:
        host = self._conversation.client.rpartition(":")[0]
        identity = self._identity(IdentityKind.CLIENT, f"{host}\0{self._conversation.client_id}")
        claim = self._claim(identity, sighting, shown, has_left)
        return msgspec.structs.replace(claim, negotiated=self._sightings.negotiated)

    def _refused(self, shown: Observation, refused: Refused) -> Claim:
        identity = self._identity(IdentityKind.BROKER, self._conversation.server)
        sighting = self._sighting(shown)
        sighting.api_key, sighting.api_version = refused.api_key, refused.api_version
        claim = self._claim(identity, sighting, shown, has_left=True)
        return msgspec.structs.replace(claim, refused=refused)

    def _sighting(self, shown: Observation) -> Sighting:
        at, whole = shown.first_captured_at, self._conversation.unbroken
        return Sighting(shown.first_sequence, at, at, at, shown.api_key, shown.api_version, whole)

    def _identity(self, kind: IdentityKind, name: str) -> Identity:
        return Identity(kind, self._conversation.cluster, name)

    def _claim(
        self, identity: Identity, sighting: Sighting, shown: Observation | None, has_left: bool
    ) -> Claim:
        conversation = self._conversation
        first = conversation.first_request if conversation.first_is_known else None
        sighting.told += 1
        sighting.told_until = sighting.until
        return Claim(
            identity=identity,
            connection=conversation.connection,
            first_sequence=sighting.first_sequence,
            as_of=sighting.told,
            client=conversation.client,
            server=conversation.server,
            opened_at=conversation.opened_at,
            since=sighting.since,
            until=sighting.until,
            before_until=sighting.before_until,
            has_left=has_left,
            began_whole=sighting.began_whole,
            whole=conversation.unbroken,
            evidence=shown.evidence if shown is not None and sighting.told == 1 else None,
            api_key=sighting.api_key,
            api_version=sighting.api_version,
            client_id=conversation.client_id,
            initial_client_id=first.client_id if first else None,
            first_is_known=first is not None,
            software=conversation.software,
            instance_id=conversation.instance_id,
        )


def _negotiated_after(before: Negotiated, request: Observation) -> Negotiated:
    at = request.first_captured_at
    if request.api_key == API_VERSIONS and not before.asked_at:
        return msgspec.structs.replace(before, asked_at=at)
    if request.api_key not in _OPENING_APIS and not before.used_at:
        return msgspec.structs.replace(before, used_at=at)
    return before
