"""kip1313/instance-id-changed."""

from __future__ import annotations

from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.conversation.texts import identifier_text
from expectations.rules.base.rule import Judgements, Level, NoState, Role, Rule, Verdict, violates
from expectations.rules.kip_1313._instance_ids import changed, judgement_of


class InstanceIdChanged(Rule):
    """Checks that all requests of a connection carry one client instance ID.

    ## Why it matters
    A client instance keeps its ID for its whole life. A connection with two IDs belongs to two
    instances, or to a client that makes a new ID when it should not; a broker that follows the KIP
    returns INVALID_REQUEST.

    ## Example
    `Metadata v14, ID 7b6e…` and then, on the same connection, `FindCoordinator v7, ID 91c0…`.

    ## What to do
    Generate the ID once, in the client's constructor, and hand the same value to every connection.

    ## What it does not cover
    The zero ID is no other ID: see kip1313/instance-id-zero and kip1313/instance-id-missing. Since
    a connection never legally changes its ID, this is decided mid-stream and after gaps, too. A
    request that could not be read is undecided: its ID may be another.
    """

    section = "Proposed Changes, Client Instance ID"
    requirement = "All requests of a connection give the same client instance ID."
    needs = "a second request on header v3"
    message = "the client instance ID changed from {expected} to {observed}"
    level = Level.VIOLATION
    role = Role.CLIENT
    needs_header_v3 = True
    implies = ("kip1313/member-id-differs",)

    def on_request(self, request: Observation, conversation: Conversation, state: NoState) -> Judgements:
        """Compare each ID with the first one seen."""
        ruling = changed(request, conversation)
        if ruling is Verdict.VIOLATES:
            expected = identifier_text(conversation.instance_id or b"")
            observed = identifier_text(request.instance_id or b"")
            context = {"anchor": _anchor(conversation), "expected": expected, "observed": observed}
            yield violates(request.count, expected, observed, context)
        elif ruling is not None:
            yield judgement_of(ruling, request)


def _anchor(conversation: Conversation) -> str:
    """Return which request carried the ID that the others are compared with."""
    first = conversation.first_identified
    if not conversation.beginning_seen or first is None:
        return "mid-stream"
    return "first-request" if first.sequence == conversation.instance_id_sequence else "later"
