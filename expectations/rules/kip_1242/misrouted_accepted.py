"""kip1242/misrouted-accepted."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from decoders.frame.record import Direction
from decoders.protocol import SASL_HANDSHAKE
from expectations.conversation.bodies import NO_NODE, ClusterDescription, SoftwareClaim
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation, lacks_api
from expectations.identity.claim import Claim, IdentityKind
from expectations.identity.shown import comparable_description
from expectations.rules.base.reason import Reason
from expectations.rules.base.rule import (
    IdentityRule,
    Judgement,
    Judgements,
    Level,
    Role,
    conforms,
    undecided,
    violates,
)

ACCEPTED_LIMIT = 16
"""How many accepted claims wait for the broker to describe itself; one more makes the oldest undecided."""


class Accepted(msgspec.Struct, frozen=True, array_like=True):
    """A claim and the response that accepted it."""

    claim: SoftwareClaim
    response: Observation


class AcceptedState(msgspec.Struct, omit_defaults=True):
    """Accepted claims that were not compared yet."""

    accepted: list[Accepted] = []


class MisroutedAccepted(IdentityRule):
    """Checks that a broker objects to a client that means to reach another cluster or broker.

    ## Why it matters
    The client goes on with what it knows of another cluster or broker. That is the silent failure
    which the KIP removes.

    ## Example
    `ApiVersions v5, cluster ID "A", node ID 3` is accepted, and the Metadata response on the same
    connection names cluster "B".

    ## What to do
    Compare both IDs with the broker's own and return REBOOTSTRAP_REQUIRED. If a proxy responds
    to ApiVersions, it must do so.

    ## What it does not cover
    Only what the broker says of itself on the same connection, or the configuration of its listener, shows a
    violation: Metadata or DescribeCluster names the cluster, and also the node if just one entry has the
    address that the client is connected to. Where the connection does not show it, the IDs are compared once
    for the address with what brokers said there on any connection. They conform if only their cluster was
    described there, and their node is listed under this address or, where hosts are names, under its port, as
    the only node accepted there. Otherwise they are undecided: an address may pass to another broker, or lead
    to several. Released brokers do not compare the IDs before authentication, and controllers never do: what
    was accepted before a login is not judged. What was accepted before bytes to the broker were lost, among
    which a login may have begun, is undecided; so is it before a request that was cut before its API, on a
    connection that served nothing yet.
    """

    section = "Public Interfaces, ApiVersions"
    requirement = "A wrong ClusterId or NodeId is refused with REBOOTSTRAP_REQUIRED."
    needs = "an accepted ApiVersions request that names cluster and node"
    message = "a client that meant to reach {expected} was accepted by {observed}"
    level = Level.VIOLATION
    role = Role.BROKER
    kind = IdentityKind.ROUTE
    waits = True
    State = AcceptedState

    def on_request(
        self, request: Observation, conversation: Conversation, state: AcceptedState
    ) -> Judgements:
        """Forget what was accepted before authentication, or before a request that may begin it."""
        if conversation.admitted:
            return
        if lacks_api(request) and state.accepted:
            yield undecided(Reason.CUT, len(state.accepted))
        if lacks_api(request) or request.api_key == SASL_HANDSHAKE:
            state.accepted.clear()

    def on_response(
        self, response: Observation, conversation: Conversation, state: AcceptedState
    ) -> Judgements:
        """Compare accepted claims with what the broker says of itself on the connection."""
        if not response.is_matched:
            return
        if conversation.negotiation.accepts_ids(response):
            assert conversation.negotiation.answered is not None
            state.accepted.append(Accepted(conversation.negotiation.answered.claim, response))
            if len(state.accepted) > ACCEPTED_LIMIT:
                state.accepted.pop(0)
                yield undecided(Reason.FORGOTTEN)
        waiting = []
        for accepted in state.accepted:
            described = comparable_description(conversation, accepted.claim)
            if described is None:
                waiting.append(accepted)
            else:
                yield self._judge_accepted(accepted, described)
        state.accepted = waiting

    def on_loss(self, loss: Observation, conversation: Conversation, state: AcceptedState) -> Judgements:
        """Give up what was accepted before bytes to the broker were lost, maybe a SaslHandshake."""
        may_hide_login = loss.direction is not Direction.TO_CLIENT and not conversation.admitted
        if state.accepted and may_hide_login:
            yield undecided(Reason.LOST_BYTES, len(state.accepted))
            state.accepted.clear()

    def concerns(self, claim: Claim) -> bool:
        """Whether a broker accepted IDs."""
        return claim.route is not None and claim.route.accepted is not None

    def judge_claim(self, claim: Claim, others: Sequence[Claim]) -> Judgement | None:
        """Compare accepted IDs with what brokers said of themselves at the address."""
        assert claim.route is not None
        ids = claim.route.accepted
        assert ids is not None
        shown = [other.route for other in others if other.route is not None]
        described = [route.described for route in shown if route.described is not None]
        clusters = {each.cluster_id for each in described} - {None}
        if not clusters:
            return undecided(Reason.NOT_SHOWN)
        nodes = {each.node_id for each in described} - {NO_NODE}
        is_own = nodes == {ids.node_id}
        if not nodes:
            is_only = all(route.accepted is None for route in shown)
            is_own = is_only and any(ids.node_id in each.named for each in described)
        is_own = is_own and clusters == {ids.cluster_id}
        return conforms() if is_own else undecided(Reason.AMBIGUOUS_BROKER)

    def _judge_accepted(self, accepted: Accepted, described: ClusterDescription) -> Judgement:
        claim = accepted.claim
        if described.is_meant_by(claim):
            return conforms()
        expected = f'cluster "{claim.cluster_id}", node {claim.node_id}'
        observed = f'cluster "{described.cluster_id}"'
        if described.node_id != NO_NODE:
            observed += f", node {described.node_id}"
        return violates(
            expected=expected,
            observed=observed,
            context={"expected": expected, "observed": observed},
            subject=accepted.response,
        )
