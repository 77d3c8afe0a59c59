"""kip1242/rebootstrap-without-cause."""

from __future__ import annotations

from collections.abc import Sequence

from decoders.protocol import NAMES_SOFTWARE_FROM, NO_ERROR, REBOOTSTRAP_REQUIRED
from expectations.conversation.bodies import Advertisement
from expectations.conversation.conversation import Conversation
from expectations.conversation.negotiation import Asked
from expectations.conversation.observation import Observation
from expectations.identity.claim import Claim, IdentityKind
from expectations.identity.shown import comparable_description, rejected_ids
from expectations.rules.base.negotiation_rule import NegotiationResponseRule
from expectations.rules.base.reason import Reason, why_unread
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


class RebootstrapWithoutCause(NegotiationResponseRule, IdentityRule):
    """Checks that a broker demands a rebootstrap only of a client that was misrouted.

    ## Why it matters
    The client throws away all that it knows of the cluster and starts again, which leads it to the
    same broker: a loop without an end.

    ## Example
    `ApiVersions v5, cluster ID null, node ID -1`, and a response with error 129, REBOOTSTRAP_REQUIRED

    ## What to do
    Return REBOOTSTRAP_REQUIRED only for IDs that are given and are not the broker's own.

    ## What it does not cover
    Error 129 in Metadata, which another KIP defines. IDs that are given may be wrong: they are
    compared with the cluster and node that the configuration names for the listener, or that Metadata or
    DescribeCluster gave on the same connection before. Otherwise with what brokers described at the address
    on other connections, before and after the refusal. If all of it was another cluster or node, the refusal
    is right. If all of it was the client's own IDs, it is information: either the broker refuses without a
    cause, or the address led to another broker for a while, or leads to several. If the IDs were accepted
    there as well, or anything else was described, it is undecided.
    """

    section = "Public Interfaces, ApiVersions"
    requirement = "Without IDs, or with the broker's own, an ApiVersions request proceeds as normal."
    needs = "a response to an ApiVersions request"
    message = "a client that gave {given} was told to rebootstrap"
    level = Level.VIOLATION
    role = Role.BROKER
    implies = ("kip1242/misrouted",)
    kind = IdentityKind.ROUTE
    waits = True

    def judge_response(
        self, response: Observation, asked: Asked | None, conversation: Conversation
    ) -> Judgements:
        """Judge each response with error 129, and each acceptance of a client that gave no IDs."""
        body = response.body
        if not isinstance(body, Advertisement):
            yield undecided(why_unread(response))
        elif body.error_code == NO_ERROR:
            if asked is not None and not asked.claim.gives_ids:
                yield conforms()
        elif body.error_code == REBOOTSTRAP_REQUIRED and rejected_ids(conversation) is None:
            yield self._judge_refusal(response, asked, conversation)

    def concerns(self, claim: Claim) -> bool:
        """Whether IDs were rejected that the connection could not compare."""
        return claim.route is not None and claim.route.rejected is not None

    def judge_claim(self, claim: Claim, others: Sequence[Claim]) -> Judgement | None:
        """Compare rejected IDs with what brokers said of themselves at the address, before and after."""
        assert claim.route is not None
        ids = claim.route.rejected
        assert ids is not None
        routes = [(each, each.route) for each in others if each.route is not None]
        described = [(each, route.described) for each, route in routes if route.described is not None]
        meant = {description.is_meant_by(ids) for _, description in described}
        if len(meant) > 1 or any(route.accepted == ids for _, route in routes):
            return undecided(Reason.AMBIGUOUS_BROKER)
        if not any(each.since < claim.since < each.until for each, _ in described) or meant == {None}:
            return undecided(Reason.NOT_SHOWN)
        if meant == {False}:
            return conforms()
        given = "the IDs that brokers describe at this address, before and after,"
        return self._violates(given, Level.INFORMATION)

    def _judge_refusal(
        self, response: Observation, asked: Asked | None, conversation: Conversation
    ) -> Judgement:
        if asked is None:
            without_ids = 0 <= response.api_version < NAMES_SOFTWARE_FROM
            return self._violates("no IDs") if without_ids else undecided(Reason.UNREADABLE)
        if not asked.claim.gives_ids:
            return self._violates("no IDs")
        described = comparable_description(conversation, asked.claim)
        if described is None:
            return undecided(Reason.NOT_SHOWN)
        return self._violates("the broker's own IDs") if described.is_meant_by(asked.claim) else conforms()

    def _violates(self, given: str, level: Level | None = None) -> Judgement:
        return violates(
            expected="any response but REBOOTSTRAP_REQUIRED",
            observed="error 129, REBOOTSTRAP_REQUIRED",
            context={"given": given},
            level=level,
        )
