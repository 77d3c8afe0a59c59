"""kip1242/misrouted."""

from __future__ import annotations

from decoders.protocol import NO_ERROR, REBOOTSTRAP_REQUIRED
from expectations.conversation.bodies import NO_NODE, Advertisement, SoftwareClaim
from expectations.conversation.conversation import Conversation
from expectations.conversation.negotiation import Asked
from expectations.conversation.observation import Observation
from expectations.rules.base.negotiation_rule import ClaimResponseRule
from expectations.rules.base.reason import why_unanswered, why_unread
from expectations.rules.base.rule import Judgements, Level, Role, conforms, undecided, violates


class Misrouted(ClaimResponseRule):
    """Checks that a client reaches the broker that it means to reach.

    ## Why it matters
    Without this check the client would go on with metadata of another cluster or broker and fail
    later, and nobody would know why. This is what the KIP exists to show.

    ## Example
    `ApiVersions v5, cluster ID "MkU3…", node ID 3`, and a response with error 129, REBOOTSTRAP_REQUIRED

    ## What to do
    Look at how addresses are assigned to brokers: a pool of hosts that changes when the cluster
    rolls, a load balancer, a stale name. The client heals itself if it may rebootstrap.

    ## What it does not cover
    Clients that do not say whom they mean to reach. Whether the broker was right to object: see
    kip1242/rebootstrap-without-cause.
    """

    section = "Motivation"
    requirement = "A client whose cluster ID or node ID is not the broker's learns that it was misrouted."
    needs = "an ApiVersions request that names a cluster and a node"
    message = "a client that meant to reach {meant} was told to rebootstrap"
    level = Level.INFORMATION
    role = Role.CLIENT

    def judge_response(
        self, response: Observation, asked: Asked | None, conversation: Conversation
    ) -> Judgements:
        """Judge the response to a client that gave IDs."""
        if asked is None or not asked.claim.gives_ids:
            return
        body = response.body
        if not isinstance(body, Advertisement):
            yield undecided(why_unread(response))
        elif body.error_code == REBOOTSTRAP_REQUIRED:
            meant = _meant(asked.claim)
            observed = "error 129, REBOOTSTRAP_REQUIRED"
            yield violates(expected=meant, observed=observed, context={"meant": meant}, subject=asked.request)
        elif body.error_code == NO_ERROR:
            yield conforms()

    def judge_without_response(self, asked: Asked, conversation: Conversation) -> Judgements:
        """Judge as undecided: the broker's verdict on the IDs was not seen."""
        if asked.claim.gives_ids:
            yield undecided(why_unanswered(conversation))


def _meant(claim: SoftwareClaim) -> str:
    node = "" if claim.node_id == NO_NODE else f"node {claim.node_id}"
    cluster = "" if claim.cluster_id is None else f'cluster "{claim.cluster_id}"'
    return " of ".join(part for part in (node, cluster) if part)
