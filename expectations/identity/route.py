"""Routes: which broker of which cluster is behind a server address, as connections to it showed."""

from __future__ import annotations

import msgspec

from expectations.conversation.bodies import ClusterDescription, SoftwareClaim
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.identity.claim import Claim, Identity, IdentityKind, Route
from expectations.identity.server_claim import claim_of_server, number_of


def comparable_description(
    conversation: Conversation, ids: SoftwareClaim | ClusterDescription
) -> ClusterDescription | None:
    """Return what shows whether IDs are those of the broker at the other end, None if nothing does.

    What the configuration says of the listener counts first, then what the broker said on the connection.
    """
    for described in (conversation.configured, conversation.described):
        if described is not None and described.is_meant_by(ids) is not None:
            return described
    return None


class ShownRoute(msgspec.Struct, omit_defaults=True):
    """What one connection showed of the route to its server.

    `accepted` are IDs that the broker accepted in the response `accepted_sequence`, and that nothing on the
    connection was compared with yet. `claimed` is the latest description that was claimed.
    """

    accepted: ClusterDescription | None = None
    accepted_sequence: int = 0
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


def _route_claim(conversation: Conversation, route: Route, at: int) -> Claim:
    identity = Identity(IdentityKind.ROUTE, conversation.cluster, conversation.server)
    return msgspec.structs.replace(claim_of_server(identity, number_of(route), at), route=route)
