"""kip1313/instance-id-in-header-v2."""

from __future__ import annotations

from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.conversation.texts import identifier_text
from expectations.rules.base.reason import why_unread
from expectations.rules.base.rule import Judgements, Level, NoState, Role, Rule, conforms, undecided, violates


class InstanceIdInHeaderV2(Rule):
    """Checks that a request does not carry an instance ID as the withdrawn draft of KIP-1313 had it.

    ## Why it matters
    The draft put the ID into a tagged field of header v2. Brokers skip a tag that they do not know, so the ID
    reaches nobody, and the client looks as if it had none.

    ## Example
    `Metadata v13` on header v2, with tagged field 0 of 16 bytes

    ## What to do
    Nothing is wrong: a tag that is not known is ignored. Use a client that implements the final KIP, with
    header v3.

    ## What it does not cover
    Other tagged fields in a header, of which no release has any. The layout of the later revision, which has
    the same tag in header v3. A request whose header was not read is undecided.
    """

    section = "Rejected Alternatives"
    requirement = "The instance ID is not a tagged field of request header v2, as it was planned at first."
    needs = "a request"
    message = "header v2 has the client instance ID {instance_id} in tagged field 0, as in a withdrawn draft"
    level = Level.INFORMATION
    role = Role.CLIENT
    passes_clean = True

    def on_request(self, request: Observation, conversation: Conversation, state: NoState) -> Judgements:
        """Judge each request whose header was read."""
        if not request.known:
            return
        draft = request.draft_instance_id
        if draft is not None:
            given = identifier_text(draft)
            expected, context = "header v3", {"instance_id": given}
            yield violates(request.count, expected, "tagged field 0", context)
        else:
            is_read = request.has_header
            yield conforms(request.count) if is_read else undecided(why_unread(request), request.count)
