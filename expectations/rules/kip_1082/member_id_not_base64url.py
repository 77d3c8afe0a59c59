"""kip1082/member-id-not-base64url."""

from __future__ import annotations

from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.conversation.texts import identifier_bytes, identifier_text, is_kafkas_form
from expectations.rules.base.rule import Judgements, Level, Role, conforms, violates
from expectations.rules.kip_1082._member_ids import MemberIdRule


class MemberIdNotBase64url(MemberIdRule):
    """Checks that a member ID that is a UUID is written as Kafka writes UUIDs.

    ## Why it matters
    Kafka's logs and tools write UUIDs as unpadded URL-safe base64. An ID in another form is not found
    when it is searched for; before 4.2, brokers did not understand the characters + and / in Share requests.

    ## Example
    `ConsumerGroupHeartbeat v1, member ID "3q2+7wAAAAAAAAAAAAAAAA=="`, which Kafka writes without the
    padding, and with - in the place of the +

    ## What to do
    Encode the 16 bytes as base64 with the URL-safe alphabet and leave the padding out: 22 characters.

    ## What it does not cover
    Member IDs that are no UUIDs: see kip1082/member-id-not-uuid. Heartbeats that could not be
    read are undecided.
    """

    section = "Proposed Changes, UUID Generation Specifications"
    requirement = "It is recommended to write the UUID as URL-safe base64, as Kafka does."
    needs = "a heartbeat whose member ID is a UUID"
    message = "the member ID {observed} is a UUID that Kafka writes {expected}"
    level = Level.INFORMATION
    role = Role.CLIENT

    def judge_member_id(self, member_id: str, request: Observation, conversation: Conversation) -> Judgements:
        """Compare the text of a UUID with Kafka's form."""
        identifier = identifier_bytes(member_id)
        if identifier is None:
            return
        if is_kafkas_form(member_id):
            yield conforms(request.count)
        else:
            expected = identifier_text(identifier)
            context = {"observed": member_id, "expected": expected}
            yield violates(request.count, expected, member_id, context)
