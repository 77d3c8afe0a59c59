"""kip1082/member-id-rewritten."""

from __future__ import annotations

from decoders.protocol import HEARTBEAT_APIS
from expectations.conversation.bodies import Heartbeat, HeartbeatResponse
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.rules.base.reason import why_unread
from expectations.rules.base.response_rule import ResponseRule
from expectations.rules.base.rule import Judgements, Level, Role, conforms, undecided, violates


class MemberIdRewritten(ResponseRule):
    """Checks that a broker keeps the member ID that the client made.

    ## Why it matters
    Many clients take the ID of the response for their own. One that is renamed by a coordinator leaves a
    ghost behind under its first ID.

    ## Example
    `ConsumerGroupHeartbeat v1, member ID "A"`, and a response without error, member ID `"B"`.

    ## What to do
    Respond with the ID of the request.

    ## What it does not cover
    Responses with an error, and responses without a member ID. A client that gave no ID may be
    given one. A heartbeat without a readable response is undecided.
    """

    section = "GroupMetadataManager, consumerGroupHeartbeat and its siblings"
    requirement = "The response to a heartbeat carries the member ID of its request."
    needs = "a heartbeat with a member ID, and a response without error"
    message = "the member ID {expected} was answered with {observed}"
    level = Level.VIOLATION
    role = Role.BROKER
    apis = frozenset(HEARTBEAT_APIS)

    def awaits(self, request: Observation, conversation: Conversation) -> bool:
        """Whether the client names a member."""
        return isinstance(request.body, Heartbeat) and request.body.has_member_id

    def judge_response(
        self, request: Observation, response: Observation, conversation: Conversation
    ) -> Judgements:
        """Compare the two member IDs."""
        body, given = response.body, request.body
        if not isinstance(body, HeartbeatResponse) or not isinstance(given, Heartbeat):
            yield undecided(why_unread(response), response.count)
        elif body.error_code != 0:
            return
        elif body.member_id in (None, given.member_id):
            yield conforms(response.count)
        else:
            expected, observed = f'"{given.member_id}"', f'"{body.member_id}"'
            context = {"expected": expected, "observed": observed}
            yield violates(response.count, expected, observed, context)
