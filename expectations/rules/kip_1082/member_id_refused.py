"""kip1082/member-id-refused."""

from __future__ import annotations

from decoders.protocol import HEARTBEAT_APIS, INVALID_REQUEST
from expectations.conversation.bodies import Heartbeat
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.conversation.texts import RESERVED_UUIDS, identifier_bytes
from expectations.rules.base.reason import Reason, why_inconclusive
from expectations.rules.base.response_rule import ResponseRule
from expectations.rules.base.rule import Judgements, Level, Role, conforms, undecided, violates
from expectations.rules.kip_1082._member_ids import is_faultless


class MemberIdRefused(ResponseRule):
    """Checks that a broker takes the member ID that a client has made, whatever form a UUID has in it.

    ## Why it matters
    The KIP leaves the form of the member ID to the client. A broker that reads it as a UUID of one form locks
    out clients that write it in another, such as padded base64 or hex.

    ## Example
    `ConsumerGroupHeartbeat v1, member ID "9OcK+dO9TYyIWVVX3xnM0g"`, and a response with INVALID_REQUEST

    ## What to do
    Take the member ID as a string. Refuse it only if it is empty or, in Share requests, longer than 36
    characters.

    ## What it does not cover
    Member IDs that are no UUIDs, and reserved ones. Other errors, which are not about the form of a request,
    and INVALID_REQUEST where something else in the request or its header may be wrong: undecided. So is
    StreamsGroupHeartbeat, of whose form too much is unknown, and a heartbeat without a readable response.
    """

    section = "Public Interfaces"
    requirement = "The choice of the member ID is up to the user, so the broker takes any that is not empty."
    needs = "a heartbeat whose member ID is a UUID, and a coordinator that takes it or objects to its form"
    message = (
        "{api} v{version} was refused with INVALID_REQUEST although only its member ID {given} can be meant"
    )
    level = Level.VIOLATION
    role = Role.BROKER
    apis = frozenset(HEARTBEAT_APIS)

    def awaits(self, request: Observation, conversation: Conversation) -> bool:
        """Whether the heartbeat names its member by a UUID."""
        body = request.body
        if not isinstance(body, Heartbeat) or body.member_id is None:
            return False
        return identifier_bytes(body.member_id) not in (None, *RESERVED_UUIDS)

    def judge_response(
        self, request: Observation, response: Observation, conversation: Conversation
    ) -> Judgements:
        """Look for a refusal that only the member ID explains."""
        heartbeat = request.body
        if response.errors == (0,):
            yield conforms(response.count)
        elif response.errors != (INVALID_REQUEST,) or not isinstance(heartbeat, Heartbeat):
            yield undecided(why_inconclusive(response), response.count)
        elif not is_faultless(heartbeat, request, conversation):
            yield undecided(Reason.OTHER_CAUSE, response.count)
        else:
            given = f'"{heartbeat.member_id}"'
            observed = f"INVALID_REQUEST to {given}"
            yield violates(response.count, "any other response", observed, {"given": given})
