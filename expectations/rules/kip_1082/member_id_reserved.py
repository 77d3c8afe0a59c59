"""kip1082/member-id-reserved."""

from __future__ import annotations

from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.conversation.texts import RESERVED_UUIDS, identifier_bytes
from expectations.rules.base.rule import Judgements, Level, Role, conforms, violates
from expectations.rules.kip_1082._member_ids import MemberIdRule


class MemberIdReserved(MemberIdRule):
    """Checks that a member ID is none of the UUIDs that Kafka keeps for itself.

    ## Why it matters
    Every client that makes the same mistake has the same ID, so two of them in one group are one
    member to the coordinator and take each other's partitions.

    ## Example
    `ConsumerGroupHeartbeat v1, member ID AAAAAAAAAAAAAAAAAAAAAA`, which is zero

    ## What to do
    Generate a random UUID, and another one if it happens to be zero or one.

    ## What it does not cover
    Member IDs that are no UUIDs. Heartbeats that could not be read are undecided.
    """

    section = "Proposed Changes, UUID Generation Specifications"
    requirement = "A generated member ID should not be a reserved UUID, such as zero."
    needs = "a heartbeat whose member ID is a UUID"
    message = "the member ID {observed} is a reserved UUID"
    level = Level.IMPROVEMENT
    role = Role.CLIENT
    implies = ("kip1313/member-id-differs",)

    def judge_member_id(self, member_id: str, request: Observation, conversation: Conversation) -> Judgements:
        """Judge a member ID that is a UUID."""
        identifier = identifier_bytes(member_id)
        if identifier in RESERVED_UUIDS:
            expected, context = "a UUID that is not reserved", {"observed": member_id}
            yield violates(request.count, expected, member_id, context)
        elif identifier is not None:
            yield conforms(request.count)
