"""kip1313/instance-id-accepted-wrongly."""

from __future__ import annotations

from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.rules.base.reason import Reason, why_first_unknown, why_inconclusive
from expectations.rules.base.response_rule import ResponseRule
from expectations.rules.base.rule import Judgements, Level, Role, Spec, Verdict, conforms, undecided, violates
from expectations.rules.kip_1313._instance_ids import (
    changed,
    first_gave_id,
    missing,
    zero_at_first,
    zero_later,
)

ACCEPTED = (0,)
REFUSALS = ((42,), (0, 42))
"""INVALID_REQUEST in every error field, or in some beside no error."""


class InstanceIdAcceptedWrongly(ResponseRule):
    """Checks that a broker refuses a request whose client instance ID is missing or has changed.

    ## Why it matters
    Operators rely on the ID to tell instances apart. Where the broker lets wrong ones pass, its logs
    ascribe requests to the wrong instance, or to none.

    ## Example
    `Metadata v14, ID 7b6e…`, then `FindCoordinator v7, ID 91c0…`, and a response with error 0.

    ## What to do
    Keep the ID of each connection's first request, compare every later one with it, and return
    INVALID_REQUEST if they differ.

    ## What it does not cover
    A zero ID in the first request, which the KIP forbids to clients without saying that it is refused, and
    one after a first request on an older header; the later revision refuses both. A connection whose first
    request gave no ID, where the broker has nothing to compare others with; if the first request is not
    known, what is accepted is undecided. A response that was not seen, could not be read, has no
    field for an error, or carries another error than INVALID_REQUEST is undecided: the broker may not
    have come so far as to look at the ID. So is a connection that ends without a response, and a request on
    an older header whose API the broker no longer offers on header v3 when it responds.
    """

    section = "Proposed Changes, Client Instance ID"
    requirement = (
        "Once the first request gave a client instance ID, a request without it, or with another, is "
        "rejected with INVALID_REQUEST."
    )
    needs = "a request whose instance ID is missing, or another than the first one of its connection"
    message = "{api} v{version} was accepted although its client instance ID {fault}"
    level = Level.VIOLATION
    role = Role.BROKER
    needs_header_v3 = True
    implies = (
        "kip1313/instance-id-changed",
        "kip1313/instance-id-missing",
        "kip1313/instance-id-zero",
    )

    def awaits(self, request: Observation, conversation: Conversation) -> bool:
        """Whether the request must be refused, as far as is known."""
        return self._fault(request, conversation) is not None

    def judge_response(
        self, request: Observation, response: Observation, conversation: Conversation
    ) -> Judgements:
        """Look for a refusal in every error field."""
        fault = self._fault(request, conversation)
        if response.errors in REFUSALS:
            yield conforms(response.count)
        elif response.errors != ACCEPTED:
            yield undecided(why_inconclusive(response), response.count)
        elif first_gave_id(conversation) is None:
            yield undecided(why_first_unknown(conversation), response.count)
        elif fault is None:
            # By versions that were advertised meanwhile it need not give the ID.
            yield undecided(Reason.NOT_SHOWN, response.count)
        else:
            yield violates(response.count, "error 42, INVALID_REQUEST", "error 0", {"fault": fault})

    def _fault(self, request: Observation, conversation: Conversation) -> str | None:
        if missing(request, conversation) is Verdict.VIOLATES:
            return "is missing"
        if changed(request, conversation) is Verdict.VIOLATES and first_gave_id(conversation) is not False:
            return "is not that of the connection"
        is_zero = zero_at_first(request, conversation) or zero_later(request, conversation)
        if self.spec is Spec.TAGGED and is_zero is Verdict.VIOLATES:
            return "is zero"
        return None
