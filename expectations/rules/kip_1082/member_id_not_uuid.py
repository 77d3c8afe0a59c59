"""kip1082/member-id-not-uuid."""

from __future__ import annotations

from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.conversation.texts import identifier_bytes
from expectations.rules.base.rule import Judgements, Level, Role, conforms, violates
from expectations.rules.kip_1082._member_ids import MemberIdRule


class MemberIdNotUuid(MemberIdRule):
    """Checks that a member ID is a UUID, as the KIP highly recommends.

    ## Why it matters
    A member ID must be unique in its group, and a random UUID surely is. A name made of host and process
    may come back, in another container say, while its first bearer still holds partitions.

    ## Example
    `ConsumerGroupHeartbeat v1, member ID "orders-1"`

    ## What to do
    Generate a UUID when the consumer starts. Another choice is no fault: the KIP leaves it to the user.

    ## What it does not cover
    How the UUID was made, and its version bits. Every way to write one counts: base64 of either
    alphabet, padded or not, and hex. Heartbeats that could not be read are undecided.
    """

    section = "Public Interfaces"
    requirement = "It is highly recommended that the member ID is a UUID; the choice is up to the user."
    needs = "a heartbeat with a member ID"
    message = "the member ID {observed} is not a UUID"
    level = Level.INFORMATION
    role = Role.CLIENT

    def judge_member_id(self, member_id: str, request: Observation, conversation: Conversation) -> Judgements:
        """Try to read the member ID as a UUID."""
        if identifier_bytes(member_id) is not None:
            yield conforms(request.count)
        else:
            observed = f'"{member_id}"'
            yield violates(request.count, "a UUID", observed, {"observed": observed})
