"""kip1082/member-id-empty."""

from __future__ import annotations

from decoders.protocol import HEARTBEAT_APIS
from expectations.conversation.bodies import Heartbeat
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.rules.base.reason import why_unread
from expectations.rules.base.rule import (
    Judgement,
    Judgements,
    Level,
    NoState,
    Role,
    Rule,
    conforms,
    undecided,
    violates,
)
from expectations.rules.kip_1082._member_ids import disagreement, weight_of_missing


class MemberIdEmpty(Rule):
    """Checks that a group heartbeat names its member where the client must have made the ID.

    ## Why it matters
    Without an ID of its own a client whose first response is lost joins twice, and the first member
    stays behind as a ghost that holds partitions until its session times out.

    ## Example
    `ConsumerGroupHeartbeat v1, group "orders", member ID "", epoch 0`

    ## What to do
    Generate a UUID when the consumer starts and send it in every heartbeat, the first one included.

    ## What it does not cover
    Member IDs in other requests may be empty. ConsumerGroupHeartbeat v0 may join without an ID; at
    a later epoch or when it leaves, the missing ID is KIP-848's matter and an improvement. Released
    Kafka demands the ID from version 1 of ConsumerGroupHeartbeat and at every version of the Share
    and Streams heartbeats; the KIP's text speaks of version 2 of the first, which was never made:
    judged by it, only that one and later are. As in the broker, an ID of nothing but characters up
    to U+0020 is empty.
    """

    section = "Public Interfaces"
    requirement = "From the version that demands it, a heartbeat carries a member ID that the client made."
    needs = "a heartbeat of the new group protocols in a version that demands a member ID"
    message = "{api} v{version}{place} has {observed}{reading}"
    level = Level.VIOLATION
    role = Role.CLIENT
    apis = frozenset(HEARTBEAT_APIS)
    implies = ("wire/malformed-request",)

    def on_request(self, request: Observation, conversation: Conversation, state: NoState) -> Judgements:
        """Judge each heartbeat where an ID is required."""
        if request.api_key not in HEARTBEAT_APIS:
            return
        heartbeat = request.body
        if not isinstance(heartbeat, Heartbeat):
            yield undecided(why_unread(request), request.count)
            return
        level = weight_of_missing(heartbeat, request, self.spec)
        if level is None:
            return
        if heartbeat.has_member_id:
            yield conforms(request.count)
        else:
            yield self._violates(request, heartbeat, level)

    def _violates(self, request: Observation, heartbeat: Heartbeat, level: Level) -> Judgement:
        observed = "a null member ID" if heartbeat.member_id is None else "an empty member ID"
        return violates(
            request.count,
            expected="a member ID made by the client",
            observed=observed,
            context={
                "place": _place(heartbeat),
                "observed": observed,
                "reading": disagreement(heartbeat, request),
            },
            level=level,
        )


def _place(heartbeat: Heartbeat) -> str:
    """Return the group and epoch for the message, "" if the member ID is null and nothing else was read."""
    if heartbeat.group_id is None:
        return ""
    return f' for group "{heartbeat.group_id}" at epoch {heartbeat.member_epoch}'
