"""kip1313/instance-id-reserved."""

from __future__ import annotations

from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.conversation.texts import RESERVED_UUIDS, identifier_text
from expectations.rules.base.reason import why_unread
from expectations.rules.base.rule import (
    Judgements,
    Level,
    NoState,
    Role,
    Rule,
    Spec,
    conforms,
    undecided,
    violates,
)


class InstanceIdReserved(Rule):
    """Checks that a client instance ID is none of the UUIDs that Kafka keeps for itself.

    ## Why it matters
    Kafka gives the UUID one a meaning of its own and never generates it. A client that sends it
    shares it with every other client that does, and a broker may take it for no ID at all.

    ## Example
    `Metadata v14, header v3, client instance ID AAAAAAAAAAAAAAAAAAAAAQ`, which is one

    ## What to do
    Generate a random UUID, and another one if it happens to be reserved.

    ## What it does not cover
    The zero ID, which stands for none: see kip1313/instance-id-zero and kip1313/instance-id-missing. The KIP
    demands only an ID other than zero, so this is an improvement; the later revision refuses it, and judged
    by that one it is a violation. A request that could not be read is undecided on a connection
    that uses header v3.
    """

    section = "Proposed Changes, Client Instance ID"
    requirement = "A client instance ID identifies one client, so it is not one of Kafka's reserved UUIDs."
    needs = "a request on header v3"
    message = "the client instance ID {observed} is reserved"
    level = Level.IMPROVEMENT
    role = Role.CLIENT
    needs_header_v3 = True

    def on_request(self, request: Observation, conversation: Conversation, state: NoState) -> Judgements:
        """Judge each ID that is given."""
        if not conversation.uses_header_v3:
            return
        if not request.has_header:
            yield undecided(why_unread(request), request.count)
        elif request.instance_id is None:
            return
        elif request.instance_id not in RESERVED_UUIDS:
            yield conforms(request.count)
        else:
            observed = identifier_text(request.instance_id)
            level = Level.VIOLATION if self.spec is Spec.TAGGED else Level.IMPROVEMENT
            expected = "a client instance ID that is not reserved"
            yield violates(request.count, expected, observed, {"observed": observed}, level=level)
