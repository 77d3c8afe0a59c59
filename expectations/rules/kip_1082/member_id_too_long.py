"""kip1082/member-id-too-long."""

from __future__ import annotations

from decoders.protocol import SHARE_ACKNOWLEDGE, SHARE_FETCH, SHARE_GROUP_HEARTBEAT
from expectations.conversation.bodies import LONGEST_SHARE_MEMBER_ID, Heartbeat, MemberRequest
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.conversation.texts import LONGEST_TEXT, is_shortened, utf16_units
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

SHARE_APIS = (SHARE_GROUP_HEARTBEAT, SHARE_FETCH, SHARE_ACKNOWLEDGE)


class MemberIdTooLong(Rule):
    """Checks that the member ID in a Share request is short enough for brokers to take.

    ## Why it matters
    Since Kafka 4.2 a broker refuses a longer one with INVALID_REQUEST, in every heartbeat, fetch and
    acknowledgement, so the member never receives a record.

    ## Example
    `ShareGroupHeartbeat v1, member ID "orders-service-7d9f8b6c5-x2x4z-consumer-1"`

    ## What to do
    Use a UUID as member ID; written as hex it has 36 characters, as base64 22.

    ## What it does not cover
    The Consumer and Streams heartbeats, which have no such limit. The KIP's text has none either, so
    judged by it nothing is too long. Requests that could not be read, such as those
    whose tail was not captured, are undecided.
    """

    section = "Public Interfaces, and the broker's check of Share requests"
    requirement = (
        "The member ID of a Share request has at most 36 UTF-16 code units, as released brokers check."
    )
    needs = "a Share request with a member ID"
    message = "{api} v{version} has a member ID of {observed} (by released Kafka; the KIP has no limit)"
    level = Level.VIOLATION
    role = Role.CLIENT
    apis = frozenset(SHARE_APIS)
    implies = ("kip1082/member-id-not-uuid",)

    def on_request(self, request: Observation, conversation: Conversation, state: NoState) -> Judgements:
        """Judge each Share request that names a member."""
        if request.api_key not in SHARE_APIS or self.spec is Spec.TEXT:
            return
        if request.cut or not request.has_header:
            yield undecided(why_unread(request), request.count)
            return
        member_id = _member_id(request)
        if not member_id:
            return
        length = utf16_units(member_id)
        if length <= LONGEST_SHARE_MEMBER_ID:
            yield conforms(request.count)
            return
        expected = f"at most {LONGEST_SHARE_MEMBER_ID} UTF-16 code units"
        observed = f"{length} UTF-16 code units"
        if is_shortened(member_id):
            observed = f"more than {LONGEST_TEXT} characters"
        yield violates(request.count, expected, observed, {"observed": observed})


def _member_id(request: Observation) -> str:
    """Return the member ID of a request that was read, empty if it has none."""
    body = request.body
    return (body.member_id or "") if isinstance(body, Heartbeat | MemberRequest) else ""
