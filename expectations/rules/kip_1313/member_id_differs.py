"""kip1313/member-id-differs."""

from __future__ import annotations

from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.conversation.texts import identifier_bytes, identifier_text
from expectations.rules.base.reason import Reason
from expectations.rules.base.rule import Judgements, Level, NoState, Role, conforms, undecided, violates
from expectations.rules.kip_1082._member_ids import MemberIdRule


class MemberIdDiffers(MemberIdRule):
    """Checks that a client uses its instance ID as the member ID of its group.

    ## Why it matters
    With one UUID for both, a member of a group is found in request logs and metrics without looking
    anything up.

    ## Example
    `ConsumerGroupHeartbeat v2, header v3, instance ID 7b6e…, member ID 91c0…`

    ## What to do
    Make one UUID when the client is constructed, and use it for both.

    ## What it does not cover
    How the UUID is written: the 16 bytes are compared, in base64 of either alphabet, padded or not, or
    in hex. Connections that give no instance ID. A heartbeat on an older header is compared with the first
    ID of its connection, unless several clients share it, as behind a proxy that pools connections: that is
    undecided. So is a member ID that is no UUID, and a heartbeat that could not be read.
    """

    section = "Proposed Changes, Alignment of identifiers"
    requirement = "The client should use the same UUID in request headers as for its member ID."
    needs = "a heartbeat with a member ID on a connection that gave an instance ID"
    message = "the member ID {observed} is not the client instance ID {expected}"
    level = Level.IMPROVEMENT
    role = Role.CLIENT

    def on_request(self, request: Observation, conversation: Conversation, state: NoState) -> Judgements:
        """Judge member IDs on connections that give an instance ID."""
        if conversation.instance_id is not None:
            yield from super().on_request(request, conversation, state)

    def judge_member_id(self, member_id: str, request: Observation, conversation: Conversation) -> Judgements:
        """Compare the bytes of the two IDs."""
        instance_id = request.instance_id or conversation.instance_id or b""
        identifier = identifier_bytes(member_id)
        if identifier is None:
            yield undecided(Reason.UNREADABLE, request.count)
        elif identifier == instance_id:
            yield conforms(request.count)
        elif request.instance_id is None and conversation.shares_clients:
            yield undecided(Reason.AMBIGUOUS_PROCESS, request.count)
        else:
            expected = identifier_text(instance_id)
            context = {"expected": expected, "observed": member_id}
            yield violates(request.count, expected, member_id, context)
