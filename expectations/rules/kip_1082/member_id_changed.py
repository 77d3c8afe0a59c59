"""kip1082/member-id-changed."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from decoders.frame.record import Kind
from decoders.protocol import HEARTBEAT_APIS, JOINING
from expectations.conversation.conversation import Conversation, is_matched
from expectations.conversation.observation import Heartbeat, HeartbeatAnswer, Observation
from expectations.rules.base.rule import Judgement, Level, Role, Rule, Verdict, conforms, undecided

DEFAULT_HEARTBEAT_INTERVAL = 5_000
"""Milliseconds; the broker's default, used until a response names the interval."""
SILENT_INTERVALS = 2
"""A member that missed this many heartbeats has given way to the new ID."""


class Member(msgspec.Struct, omit_defaults=True):
    """The member of one group on this connection, and the IDs that appeared beside its own.

    Of its latest heartbeat stand here the sequence, the time of capture in nanoseconds, and the member
    epoch. `rivals` has the first heartbeat of each other ID, `pending` says how many of them followed.
    """

    member_id: str
    latest_sequence: int = 0
    latest_captured_at: int = 0
    epoch: int = JOINING
    answered: bool = False
    assigned_id: str | None = None
    heartbeat_interval: int = DEFAULT_HEARTBEAT_INTERVAL
    rivals: dict[str, Observation] = {}
    shared: bool = False
    pending: int = 0

    @property
    def has_left(self) -> bool:
        """Whether its latest heartbeat said that it leaves."""
        return self.epoch < JOINING

    def hear(self, request: Observation) -> None:
        """Remember its latest heartbeat."""
        self.latest_sequence, self.latest_captured_at = request.first_sequence, request.last_captured_at
        self.epoch, self.answered = _epoch(request), False


class MembersState(msgspec.Struct, omit_defaults=True):
    """The members by group."""

    groups: dict[str, Member] = {}


class MemberIdChanged(Rule):
    """Checks that a client keeps its member ID of a group, across retries, leaving and rejoining.

    ## Why it matters
    The ID stands for one life of the process. A client that makes a new one leaves a ghost behind:
    the old member holds its partitions until its session times out.

    ## Example
    `ConsumerGroupHeartbeat v1, member "A", epoch -1` and then `member "B", epoch 0` for the same group.

    ## What to do
    Make the ID once for the lifetime of the consumer object and keep it, even after an
    UNKNOWN_MEMBER_ID or a fencing error.

    ## What it does not cover
    Adopting the ID that the broker's last response gave. Another ID may also mean that two members
    share the connection: if the first one is seen again, it is undecided. So a change without a
    leave is reported only when the first ID has been silent for two heartbeat intervals, or the
    connection closed without it. What a gap or an unreadable heartbeat may have hidden is undecided.
    """

    section = "Proposed Changes, Member ID Lifecycle"
    requirement = "The member ID stays the same for the life of the process, also when it leaves and rejoins."
    message = 'the member ID for group "{group}" changed from {expected} to {observed} ({when})'
    level = Level.VIOLATION
    role = Role.CLIENT
    apis = frozenset(HEARTBEAT_APIS)
    implies = ("kip1313/member-id-differs",)
    State = MembersState

    def judge(
        self, observation: Observation, conversation: Conversation, state: MembersState
    ) -> Iterator[Judgement]:
        """Follow the members of each group."""
        if observation.kind is Kind.GAP:
            yield from _forget(state)
        elif observation.api_key not in HEARTBEAT_APIS:
            return
        elif observation.kind is Kind.REQUEST:
            if isinstance(observation.body, Heartbeat) and observation.body.member_id is not None:
                yield from self._hear(observation, observation.body, state)
            else:
                yield from _forget(state)
        elif observation.kind is Kind.RESPONSE:
            _hear_answer(observation, state)

    def close(self, conversation: Conversation, state: MembersState) -> Iterator[Judgement]:
        """Judge the IDs that appeared beside a member's own: they have replaced it."""
        if not conversation.ended:
            yield from _forget(state)
        for group_id, member in state.groups.items():
            yield from self._replace(group_id, member)

    def _hear(self, request: Observation, heartbeat: Heartbeat, state: MembersState) -> Iterator[Judgement]:
        group_id, member_id = heartbeat.group_id, heartbeat.member_id
        if not group_id or not member_id or not heartbeat.has_member_id:
            return
        member = state.groups.get(group_id)
        if member is None:
            member = state.groups[group_id] = Member(member_id)
        elif member.shared:
            yield undecided(request.count)
        elif member_id == member.member_id:
            yield from _hear_again(member, request.count)
        else:
            yield from self._hear_other(request, group_id, member_id, member)
        if member_id == member.member_id:
            member.hear(request)

    def _hear_other(
        self, request: Observation, group_id: str, member_id: str, member: Member
    ) -> Iterator[Judgement]:
        if member_id == member.assigned_id:
            yield from _drop_rivals(member)
            member.member_id = member_id
            yield conforms(request.count)
        elif member.has_left:
            yield _violates(group_id, member, member_id, request, "across leave and rejoin")
            member.member_id = member_id
        else:
            is_known = member.rivals.setdefault(member_id, request) is not request
            member.pending += request.count if is_known else 0
            if _is_silent(member, request):
                yield from self._replace(group_id, member)

    def _replace(self, group_id: str, member: Member) -> Iterator[Judgement]:
        for member_id, first in member.rivals.items():
            retry = not member.answered and member.epoch == JOINING
            yield _violates(group_id, member, member_id, first, "on a retry" if retry else "mid-session")
            member.member_id, member.assigned_id = member_id, None
        if member.pending:
            yield conforms(member.pending)
        member.rivals.clear()
        member.pending = 0


def _violates(group_id: str, member: Member, member_id: str, first: Observation, when: str) -> Judgement:
    return Judgement(
        Verdict.VIOLATES,
        expected=member.member_id,
        observed=member_id,
        context={"group": group_id, "expected": member.member_id, "observed": member_id, "when": when},
        subject=first,
    )


def _hear_again(member: Member, count: int) -> Iterator[Judgement]:
    """Judge a further heartbeat of the member: IDs that appeared beside it belong to others."""
    if member.rivals:
        yield from _drop_rivals(member)
        member.shared = True
    else:
        yield conforms(count)


def _drop_rivals(member: Member) -> Iterator[Judgement]:
    """Drop the IDs that appeared beside a member's own: it is undecided whose they are."""
    if member.rivals:
        yield undecided(len(member.rivals) + member.pending)
        member.rivals.clear()
        member.pending = 0


def _hear_answer(response: Observation, state: MembersState) -> None:
    answer = response.body
    if not isinstance(answer, HeartbeatAnswer) or not is_matched(response):
        return
    for member in state.groups.values():
        if member.latest_sequence == response.paired_sequence:
            member.answered = True
            member.assigned_id = answer.member_id
            member.heartbeat_interval = answer.heartbeat_interval or member.heartbeat_interval


def _forget(state: MembersState) -> Iterator[Judgement]:
    """Forget all members because something was not seen; what is pending is undecided."""
    for member in state.groups.values():
        yield from _drop_rivals(member)
    state.groups.clear()


def _is_silent(member: Member, request: Observation) -> bool:
    silence = request.last_captured_at - member.latest_captured_at
    return silence >= SILENT_INTERVALS * member.heartbeat_interval * 1_000_000


def _epoch(request: Observation) -> int:
    epoch = request.body.member_epoch if isinstance(request.body, Heartbeat) else None
    return JOINING if epoch is None else epoch
