"""kip1082/member-id-not-used."""

from __future__ import annotations

import msgspec

from decoders.protocol import (
    HEARTBEAT_APIS,
    JOIN_GROUP,
    OFFSET_COMMIT,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
    TXN_OFFSET_COMMIT,
)
from expectations.conversation.bodies import Heartbeat, MemberRequest
from expectations.conversation.conversation import Conversation
from expectations.conversation.members import MEMBER_LIMIT
from expectations.conversation.observation import Observation
from expectations.conversation.texts import is_blank
from expectations.rules.base.reason import Reason, why_incomplete
from expectations.rules.base.rule import (
    Judgement,
    Judgements,
    Level,
    Role,
    Rule,
    conforms,
    undecided,
    violates,
)

SHARE_REQUESTS = (SHARE_FETCH, SHARE_ACKNOWLEDGE)


class UnnamedMember(msgspec.Struct, omit_defaults=True):
    """Whether a heartbeat or JoinGroup named no member: the coordinator may have assigned an unknown ID."""

    seen: bool = False


class MemberIdNotUsed(Rule):
    """Checks that a member commits offsets and reads shares under the member ID of its heartbeats.

    ## Why it matters
    The coordinator knows the member by the ID of its heartbeats. A commit under another one is refused, and
    a Share session under another one acquires records that the member never acknowledges.

    ## Example
    `ShareGroupHeartbeat v1, group "orders", member "A"`, and then `ShareAcknowledge v1, group "orders",
    member "B"`

    ## What to do
    Hand the one member ID of the consumer to every request that has a field for it.

    ## What it does not cover
    OffsetFetch. An empty member ID, which brokers accept in commits of clients that are in no group. Commits
    of groups without heartbeats on the connection, as classic groups have none of KIP-848's: they are not
    judged. A Share request without them is undecided: members fetch from other brokers than the coordinator.
    If several members of the group use the connection, any of their IDs will do. Another ID is undecided on a
    connection that also joins classic groups, is shared by several clients, has lost bytes, or has a member
    whose ID is not known: the broker makes it, or may name it in a response that could not be read.
    """

    section = "Public Interfaces"
    requirement = "The member ID of the first heartbeat is in every later request."
    needs = "a member of the new group protocols that commits offsets, or a Share request"
    message = (
        '{api} v{version} is sent as member {observed} of group "{group}", whose heartbeats name {expected}'
    )
    level = Level.IMPROVEMENT
    role = Role.CLIENT
    apis = frozenset({*SHARE_REQUESTS, OFFSET_COMMIT, TXN_OFFSET_COMMIT, JOIN_GROUP, *HEARTBEAT_APIS})
    State = UnnamedMember

    def on_request(
        self, request: Observation, conversation: Conversation, state: UnnamedMember
    ) -> Judgements:
        """Compare the member ID with those of the group's heartbeats."""
        body = request.body
        if request.api_key == JOIN_GROUP or request.api_key in HEARTBEAT_APIS:
            is_named = isinstance(body, Heartbeat) and body.has_member_id
            state.seen = state.seen or not is_named
        elif isinstance(body, MemberRequest) and not is_blank(body.member_id):
            yield from _judge_member(request, body, conversation, state)


def _judge_member(
    request: Observation, sender: MemberRequest, conversation: Conversation, state: UnnamedMember
) -> Judgements:
    known = conversation.members.ids_of(sender.group_id or "")
    if not known:
        if request.api_key in SHARE_REQUESTS:
            yield undecided(Reason.NOT_SHOWN, request.count)
    elif sender.member_id in known:
        yield conforms(request.count)
    elif not conversation.unbroken:
        yield undecided(why_incomplete(conversation), request.count)
    elif state.seen or conversation.members.hidden:
        yield undecided(Reason.NOT_SHOWN, request.count)
    elif conversation.shares_clients:
        yield undecided(Reason.AMBIGUOUS_PROCESS, request.count)
    elif len(conversation.members.known) >= MEMBER_LIMIT:
        yield undecided(Reason.FORGOTTEN, request.count)
    else:
        yield _violates(request, sender, sorted(known))


def _violates(request: Observation, sender: MemberRequest, known: list[str]) -> Judgement:
    expected = f'"{known[0]}"' if len(known) == 1 else f'"{known[0]}" and {len(known) - 1} more'
    observed = f'"{sender.member_id}"'
    context = {"group": sender.group_id or "", "expected": expected, "observed": observed}
    return violates(request.count, expected, observed, context)
