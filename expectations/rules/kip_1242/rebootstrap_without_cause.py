"""kip1242/rebootstrap-without-cause."""

from __future__ import annotations

from collections.abc import Iterator

from decoders.protocol import NO_ERROR, REBOOTSTRAP_REQUIRED
from expectations.conversation.bodies import Advertisement
from expectations.conversation.conversation import Conversation
from expectations.conversation.negotiation import Asked
from expectations.conversation.observation import Observation
from expectations.identity.route import comparable_description
from expectations.rules.base.negotiation_rule import FIRST_VERSION_WITH_SOFTWARE, NegotiationResponseRule
from expectations.rules.base.rule import Judgement, Level, Role, Verdict, conforms, undecided


class RebootstrapWithoutCause(NegotiationResponseRule):
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
    DescribeCluster gave on the same connection before. Without these they are undecided: the address may
    have passed to another broker since other connections learnt whose it is.
    """

    section = "Public Interfaces, ApiVersions"
    requirement = "Without IDs, or with the broker's own, an ApiVersions request proceeds as normal."
    message = "a client that gave {given} was told to rebootstrap"
    level = Level.VIOLATION
    role = Role.BROKER
    implies = ("kip1242/misrouted",)

    def judge_response(
        self, response: Observation, asked: Asked | None, conversation: Conversation
    ) -> Iterator[Judgement]:
        """Judge each response with error 129, and each acceptance of a client that gave no IDs."""
        body = response.body
        if not isinstance(body, Advertisement):
            yield undecided()
        elif body.error_code == NO_ERROR:
            if asked is not None and not asked.claim.gives_ids:
                yield conforms()
        elif body.error_code == REBOOTSTRAP_REQUIRED:
            yield self._judge_refusal(response, asked, conversation)

    def _judge_refusal(
        self, response: Observation, asked: Asked | None, conversation: Conversation
    ) -> Judgement:
        if asked is None:
            without_ids = 0 <= response.api_version < FIRST_VERSION_WITH_SOFTWARE
            return self._violates("no IDs") if without_ids else undecided()
        if not asked.claim.gives_ids:
            return self._violates("no IDs")
        described = comparable_description(conversation, asked.claim)
        if described is None:
            return undecided()
        return self._violates("the broker's own IDs") if described.is_meant_by(asked.claim) else conforms()

    def _violates(self, given: str) -> Judgement:
        return Judgement(
            Verdict.VIOLATES,
            expected="any response but REBOOTSTRAP_REQUIRED",
            observed="error 129, REBOOTSTRAP_REQUIRED",
            context={"given": given},
        )
