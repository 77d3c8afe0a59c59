"""kip1242/misrouted-accepted."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from decoders.frame.record import Kind
from decoders.protocol import API_VERSIONS, NO_ERROR, SASL_HANDSHAKE
from expectations.conversation.bodies import NO_NODE, Advertisement, ClusterDescription, SoftwareClaim
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.rules.base.rule import Judgement, Level, Role, Rule, Verdict, conforms, undecided

ACCEPTED_LIMIT = 16
"""How many accepted claims wait for the broker to describe itself; one more makes the oldest undecided."""


class Accepted(msgspec.Struct, frozen=True, array_like=True):
    """A claim and the response that accepted it."""

    claim: SoftwareClaim
    response: Observation


class AcceptedState(msgspec.Struct, omit_defaults=True):
    """Accepted claims that were not compared yet."""

    accepted: list[Accepted] = []


class MisroutedAccepted(Rule):
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
    Claims that cannot be compared with anything on this connection. Metadata or DescribeCluster names
    the cluster, and also the node if just one entry has the address that the client is connected to.
    Released brokers do not compare the IDs before authentication, and controllers never do: what was
    accepted before SaslHandshake, or where no broker describes itself, is not judged.
    """

    section = "Public Interfaces, ApiVersions"
    requirement = "A wrong ClusterId or NodeId is refused with REBOOTSTRAP_REQUIRED."
    message = "a client that meant to reach {expected} was accepted by {observed}"
    level = Level.VIOLATION
    role = Role.BROKER
    State = AcceptedState

    def judge(
        self, observation: Observation, conversation: Conversation, state: AcceptedState
    ) -> Iterator[Judgement]:
        """Compare accepted claims with what the broker says of itself."""
        if observation.kind is Kind.REQUEST and observation.api_key == SASL_HANDSHAKE:
            state.accepted.clear()
        elif observation.kind is Kind.RESPONSE and observation.is_matched:
            yield from self._apply_response(observation, conversation, state)

    def close(self, conversation: Conversation, state: AcceptedState) -> Iterator[Judgement]:
        """Nothing more will be known of the broker: claims that still wait are undecided."""
        if state.accepted:
            yield undecided(len(state.accepted))

    def _apply_response(
        self, response: Observation, conversation: Conversation, state: AcceptedState
    ) -> Iterator[Judgement]:
        if response.api_key == API_VERSIONS and _accepts_ids(response, conversation):
            assert conversation.negotiation.answered is not None
            state.accepted.append(Accepted(conversation.negotiation.answered.claim, response))
            if len(state.accepted) > ACCEPTED_LIMIT:
                state.accepted.pop(0)
                yield undecided()
        described = conversation.configured or conversation.described
        if described is not None:
            yield from self._judge_accepted(described, state)

    def _judge_accepted(self, described: ClusterDescription, state: AcceptedState) -> Iterator[Judgement]:
        waiting = []
        for accepted in state.accepted:
            judgement = self._judge_one(accepted, described)
            if judgement is None:
                waiting.append(accepted)
            else:
                yield judgement
        state.accepted = waiting

    def _judge_one(self, accepted: Accepted, described: ClusterDescription) -> Judgement | None:
        claim = accepted.claim
        if described.is_meant_by(claim):
            return conforms()
        if described.cluster_id == claim.cluster_id and described.node_id == NO_NODE:
            return None
        expected = f'cluster "{claim.cluster_id}", node {claim.node_id}'
        observed = f'cluster "{described.cluster_id}"'
        if described.node_id != NO_NODE:
            observed += f", node {described.node_id}"
        return Judgement(
            Verdict.VIOLATES,
            expected=expected,
            observed=observed,
            context={"expected": expected, "observed": observed},
            subject=accepted.response,
        )


def _accepts_ids(response: Observation, conversation: Conversation) -> bool:
    """Whether a response accepts, in the version of the request, a request that gives both IDs."""
    asked, body = conversation.negotiation.answered, response.body
    if asked is None or not isinstance(body, Advertisement):
        return False
    gives_both = asked.claim.cluster_id is not None and asked.claim.node_id != NO_NODE
    in_its_version = body.body_version == asked.request.api_version
    return gives_both and body.error_code == NO_ERROR and in_its_version
