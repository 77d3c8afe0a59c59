"""Writes the claims that one connection makes: of its identities, and of the server at its other end."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from decoders.wire.assembly import PREFIX
from expectations.conversation.bodies import Advertisement
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.conversation.progress import Shown
from expectations.identity.claim import Claim, Foreign, Identity, IdentityKind, Membership, Refused
from expectations.identity.server_claim import advertised_claim
from expectations.identity.shown import ShownIdentities, ShownIdentity


class ConnectionClaims:
    """The claims of one connection, as its facts are now. Each claim of an identity is counted there."""

    def __init__(self, identities: ShownIdentities, conversation: Conversation) -> None:
        self._identities = identities
        self._conversation = conversation
        self._progress = conversation.progress

    def of_advertisement(self, response: Observation, body: Advertisement) -> Claim:
        """Claim what the server advertised in a response."""
        conversation, at = self._conversation, response.first_captured_at
        server, witness = conversation.server, conversation.connection
        return advertised_claim(conversation.cluster, server, body.ranges, at, witness)

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

    def of_client(self, request: Observation | None = None, *, has_left: bool = False) -> Claim:
        """Claim the client ID at the client's address, with how the connection negotiated."""
        host, shown = self._conversation.client.rpartition(":")[0], self._progress.client
        assert shown is not None and self._identities.client is not None
        identity = self._identity(IdentityKind.CLIENT, f"{host}\0{self._conversation.client_id}")
        claim = self._claim(identity, self._identities.client, shown, request, has_left)
        return msgspec.structs.replace(claim, negotiated=self._identities.negotiated)

    def of_refusal(self, observation: Observation, refused: Refused) -> Iterator[Claim]:
        """Claim that the server refused a request, unless enough of its kind were claimed."""
        if not self._identities.refusals.claim(refused):
            return
        identity = self._identity(IdentityKind.BROKER, self._conversation.server)
        first = self.shown_first(observation)
        first.api_key, first.api_version = refused.api_key, refused.api_version
        shown = Shown(observation.first_captured_at, observation.first_captured_at)
        claim = self._claim(identity, first, shown, observation, has_left=True)
        yield msgspec.structs.replace(claim, refused=refused)

    def of_foreign_peer(self, opening: Observation) -> Claim:
        """Claim that the client opened with bytes that are no Kafka."""
        identity = self._identity(IdentityKind.LISTENER, self._conversation.server)
        shown = Shown(opening.first_captured_at, opening.first_captured_at)
        foreign = Foreign(opening.size.to_bytes(PREFIX), opening.named_port, opening.responded)
        has_left = not opening.responded
        claim = self._claim(identity, self.shown_first(opening), shown, opening, has_left)
        return msgspec.structs.replace(claim, foreign=foreign)

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
        )
