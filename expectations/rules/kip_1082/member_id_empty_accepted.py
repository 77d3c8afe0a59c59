"""kip1082/member-id-empty-accepted."""

from __future__ import annotations

from decoders.protocol import HEARTBEAT_APIS, INVALID_REQUEST
from expectations.conversation.bodies import Heartbeat
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.rules.base.reason import why_inconclusive
from expectations.rules.base.response_rule import ResponseRule
from expectations.rules.base.rule import Judgements, Level, Role, conforms, undecided, violates
from expectations.rules.kip_1082._member_ids import disagreement, weight_of_missing


class MemberIdEmptyAccepted(ResponseRule):
    """Checks that a broker refuses a heartbeat without the member ID that it must have.

    ## Why it matters
    A coordinator that takes the heartbeat makes the ID itself, and the ghost members that the KIP
    ends are back: a client that loses the response joins a second time.

    ## Example
    `ConsumerGroupHeartbeat v1, member ID "", epoch 0`, and a response with error 0.

    ## What to do
    Refuse a null or empty member ID with INVALID_REQUEST from the version on that demands one.

    ## What it does not cover
    Other errors than INVALID_REQUEST, which a broker may find before it looks at the member ID, and
    connections that end without a response: undecided.
    """

    section = "Public Interfaces"
    requirement = "A heartbeat without the member ID that it must have is rejected with INVALID_REQUEST."
    needs = "a heartbeat without the member ID that it must have"
    message = "{api} v{version} was accepted although it has no member ID{reading}"
    level = Level.VIOLATION
    role = Role.BROKER
    apis = frozenset(HEARTBEAT_APIS)
    implies = ("kip1082/member-id-empty",)

    def awaits(self, request: Observation, conversation: Conversation) -> bool:
        """Whether the heartbeat must be refused."""
        heartbeat = request.body
        if not isinstance(heartbeat, Heartbeat):
            return False
        return not heartbeat.has_member_id and weight_of_missing(heartbeat, request, self.spec) is not None

    def judge_response(
        self, request: Observation, response: Observation, conversation: Conversation
    ) -> Judgements:
        """Look at the error of the response."""
        if response.errors == (0,) and isinstance(request.body, Heartbeat):
            context = {"reading": disagreement(request.body, request)}
            yield violates(response.count, "error 42, INVALID_REQUEST", "error 0", context)
        elif response.errors == (INVALID_REQUEST,):
            yield conforms(response.count)
        else:
            yield undecided(why_inconclusive(response), response.count)
