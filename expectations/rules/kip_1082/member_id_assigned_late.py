"""kip1082/member-id-assigned-late."""

from __future__ import annotations

from decoders.protocol import CONSUMER_GROUP_HEARTBEAT, JOINING
from expectations.conversation.bodies import Heartbeat
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.rules.base.reason import why_unread
from expectations.rules.base.rule import Judgements, Level, NoState, Role, Rule, conforms, undecided, violates


class MemberIdAssignedLate(Rule):
    """Checks whether a client that joins by version 0 already has a member ID of its own.

    ## Why it matters
    A join without an ID cannot be repeated safely: if its response is lost, the client joins again as another
    member, and the first one stays as a ghost that holds partitions until its session times out.

    ## Example
    `ConsumerGroupHeartbeat v0, group "orders", member ID "", epoch 0`

    ## What to do
    Nothing is wrong: version 0 allows it. Use a client that speaks version 1, or one that sends an ID
    of its own in version 0, which brokers take as well.

    ## What it does not cover
    Later versions, where the ID is demanded: see kip1082/member-id-empty. Heartbeats that could not be
    read are undecided.
    """

    section = "Motivation"
    requirement = (
        "A client that lets the broker make its member ID risks ghost members; new ones make their own."
    )
    needs = "a consumer that joins by version 0 of ConsumerGroupHeartbeat"
    message = 'a member joins group "{group}" without an ID of its own'
    level = Level.INFORMATION
    role = Role.CLIENT
    apis = frozenset({CONSUMER_GROUP_HEARTBEAT})

    def on_request(self, request: Observation, conversation: Conversation, state: NoState) -> Judgements:
        """Judge each join by version 0."""
        asked = (request.api_key, request.api_version)
        if asked != (CONSUMER_GROUP_HEARTBEAT, 0):
            return
        heartbeat = request.body
        if not isinstance(heartbeat, Heartbeat) or heartbeat.member_epoch is None:
            yield undecided(why_unread(request), request.count)
        elif heartbeat.member_epoch == JOINING and heartbeat.has_member_id:
            yield conforms(request.count)
        elif heartbeat.member_epoch == JOINING:
            expected, context = "a member ID made by the client", {"group": heartbeat.group_id or ""}
            yield violates(request.count, expected, "none", context)
