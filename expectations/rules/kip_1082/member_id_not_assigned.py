"""kip1082/member-id-not-assigned."""

from __future__ import annotations

from decoders.protocol import CONSUMER_GROUP_HEARTBEAT, INVALID_REQUEST, JOINING
from expectations.conversation.bodies import Heartbeat, HeartbeatResponse
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.conversation.texts import is_blank
from expectations.rules.base.reason import Reason, why_unread
from expectations.rules.base.response_rule import ResponseRule
from expectations.rules.base.rule import Judgement, Judgements, Level, Role, conforms, undecided, violates
from expectations.rules.kip_1082._member_ids import is_faultless


class MemberIdNotAssigned(ResponseRule):
    """Checks that a broker gives a member ID to a client that joins by version 0 without one.

    ## Why it matters
    Clients from before KIP-1082 leave the member ID to the coordinator. One that gets none cannot send a
    second heartbeat, and one that is refused cannot join at all.

    ## Example
    `ConsumerGroupHeartbeat v0, member ID "", epoch 0`, and a response with error 0 and member ID `null`, or
    with error 42, INVALID_REQUEST

    ## What to do
    Generate a member ID for a join by version 0 that has none. Demand one from version 1 on only.

    ## What it does not cover
    Joins that name a member, and later versions. Other errors say nothing of the member ID, and
    INVALID_REQUEST may be about something else that is wrong with the request or its header: undecided. So
    is a join without a readable response.
    """

    section = "Compatibility, Deprecation, and Migration Plan"
    requirement = "A client on version 0 follows KIP-848: it joins without a member ID and is given one."
    needs = "a join by version 0 of ConsumerGroupHeartbeat without a member ID"
    message = 'a join of group "{group}" by version 0 without a member ID was {observed}'
    level = Level.VIOLATION
    role = Role.BROKER
    apis = frozenset({CONSUMER_GROUP_HEARTBEAT})
    implies = ("kip1082/member-id-assigned-late",)

    def awaits(self, request: Observation, conversation: Conversation) -> bool:
        """Whether the request leaves its member ID to the broker, as version 0 may."""
        body = request.body
        if (request.api_key, request.api_version) != (CONSUMER_GROUP_HEARTBEAT, 0):
            return False
        return isinstance(body, Heartbeat) and body.member_epoch == JOINING and body.member_id == ""

    def judge_response(
        self, request: Observation, response: Observation, conversation: Conversation
    ) -> Judgements:
        """Look for a member ID, or for a refusal that only its absence explains."""
        body, heartbeat = response.body, request.body
        if not isinstance(body, HeartbeatResponse) or not isinstance(heartbeat, Heartbeat):
            yield undecided(why_unread(response), response.count)
        elif body.error_code == 0 and not is_blank(body.member_id):
            yield conforms(response.count)
        elif body.error_code == 0:
            yield _violates(heartbeat, response, "answered without one")
        elif body.error_code == INVALID_REQUEST and is_faultless(heartbeat, request, conversation):
            yield _violates(heartbeat, response, "refused with INVALID_REQUEST")
        else:
            yield undecided(Reason.OTHER_CAUSE, response.count)


def _violates(heartbeat: Heartbeat, response: Observation, observed: str) -> Judgement:
    context = {"group": heartbeat.group_id or "", "observed": observed}
    return violates(response.count, "a generated member ID", observed, context)
