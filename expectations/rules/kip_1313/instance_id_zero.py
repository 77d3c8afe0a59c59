"""kip1313/instance-id-zero."""

from __future__ import annotations

from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.conversation.texts import ZERO_UUID
from expectations.rules.base.rule import Judgements, Level, NoState, Role, Rule, Spec, Verdict, violates
from expectations.rules.kip_1313._instance_ids import judgement_of, zero_at_first, zero_later


class InstanceIdZero(Rule):
    """Checks that a request on header v3 carries a client instance ID.

    ## Why it matters
    The ID of the first request is the one the broker holds every later request against. A
    connection that begins with the zero ID can never be traced to a client instance. On a connection that
    began with an older header, a request with the zero ID is one that cannot be traced.

    ## Example
    `ApiVersions v6, header v3, client instance ID AAAAAAAAAAAAAAAAAAAAAA`, which is zero

    ## What to do
    Generate the ID when the client is constructed, before it connects, and send it from the first
    request on, whenever the header has a place for it.

    ## What it does not cover
    SaslHandshake and raw SASL tokens cannot carry an ID: the first request after them is judged.
    The KIP demands an ID of connections that begin with header v3, so a zero ID in the first request is a
    violation. After a first request on an older header it is an improvement, or a violation by the later
    revision, which refuses it. After a first request with an ID see kip1313/instance-id-missing; after one
    with the zero ID nothing more is counted. What depends on a first request that was not seen or could not
    be read is undecided.
    """

    section = "Proposed Changes, Client Instance ID"
    requirement = "A connection whose first request uses header v3 gives a non-zero client instance ID in it."
    needs = "a request on header v3"
    message = "{request} header v3 with a client instance ID of zero"
    level = Level.VIOLATION
    role = Role.CLIENT
    needs_header_v3 = True

    def on_request(self, request: Observation, conversation: Conversation, state: NoState) -> Judgements:
        """Judge the first request that could carry an ID, and later ones after a first on an older header."""
        at_first = zero_at_first(request, conversation)
        ruling = at_first or zero_later(request, conversation)
        if ruling is Verdict.VIOLATES:
            is_first = at_first is not None
            yield violates(
                request.count,
                expected="a non-zero client instance ID",
                observed=ZERO_UUID,
                context={"request": "the first request uses" if is_first else "a later request uses"},
                level=Level.VIOLATION if is_first or self.spec is Spec.TAGGED else Level.IMPROVEMENT,
            )
        elif ruling is not None:
            yield judgement_of(ruling, request)
