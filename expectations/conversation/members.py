"""The facts of group members, from the heartbeats of each (KIP-848, KIP-1082).

    observation              what changes of a member
    its heartbeat            `epoch`; `answered` becomes False. A new member is added; if MEMBER_LIMIT are
                             followed, one that has left makes room
    the response to that     `answered`, `assigned_id`, `error_code`, `heartbeat_interval`; nothing if it
                             cannot be read
    a loss, or a heartbeat   all but `epoch` and `joined_as` becomes unknown: newer responses may have
    that cannot be read      been lost

The times of its heartbeats are in `MemberProgress`.
"""

from __future__ import annotations

import msgspec

from decoders.frame.record import Kind
from decoders.protocol import HEARTBEAT_APIS, JOINING, NO_ERROR
from expectations.conversation.bodies import Heartbeat, HeartbeatResponse
from expectations.conversation.observation import Observation
from expectations.conversation.own_values import (
    CorrelationId,
    Epoch,
    ErrorCode,
    MemberId,
    MemberName,
    Milliseconds,
)
from expectations.conversation.progress import MemberProgress, Progress

MEMBER_LIMIT = 64
"""Members of one connection that are followed."""
DEFAULT_HEARTBEAT_INTERVAL = 5_000
"""Milliseconds; the broker's default, used until a response gives the interval."""
ZERO = "\N{SYMBOL FOR NULL}"
"""Stands for a zero byte in a group ID."""
_SEPARATOR = "\0"


class Member(msgspec.Struct, omit_defaults=True):
    """One member: the epoch of its latest heartbeat, and what the response to that heartbeat said.

    `assigned_id` is the member ID in the response, `heartbeat_interval` is in milliseconds. The error code
    counts only if it was `answered`. `joined_as` is the correlation ID of the first heartbeat that joined.
    """

    epoch: Epoch = JOINING
    answered: bool = False
    assigned_id: MemberId | None = None
    heartbeat_interval: Milliseconds = DEFAULT_HEARTBEAT_INTERVAL
    error_code: ErrorCode = NO_ERROR
    joined_as: CorrelationId | None = None

    @property
    def has_left(self) -> bool:
        """Whether the latest heartbeat says that the member leaves."""
        return self.epoch < JOINING


class Members(msgspec.Struct, omit_defaults=True):
    """The members of one connection by `member_name`.

    `hidden` means that a heartbeat, or the response to one, could not be read.
    """

    known: dict[MemberName, Member] = {}
    hidden: bool = False

    def process(self, observation: Observation, progress: Progress) -> MemberProgress | None:
        """Process one observation; returns the progress of the member whose heartbeat it is."""
        if observation.kind in (Kind.GAP, Kind.INVALID_SIZE):
            self._forget_responses(progress)
        elif observation.api_key not in HEARTBEAT_APIS:
            return None
        elif observation.kind is Kind.REQUEST:
            if isinstance(observation.body, Heartbeat) and observation.body.member_id is not None:
                return self._process_request(observation, observation.body, progress)
            self.hidden = self.hidden or not isinstance(observation.body, Heartbeat)
            self._forget_responses(progress)
        elif observation.kind is Kind.RESPONSE and observation.is_matched:
            self._process_response(observation, progress)
        return None

    def of(self, group_id: str, member_id: str) -> Member:
        """Return the facts of a member; those of a member that is not followed are the defaults."""
        return self.known.get(member_name(group_id, member_id)) or Member()

    def ids_of(self, group_id: str) -> set[str]:
        """Return the member IDs of a group: those of its heartbeats, and those that the broker assigned."""
        group = member_name(group_id, "")
        members = {name: member for name, member in self.known.items() if name.startswith(group)}
        assigned = {member.assigned_id for member in members.values() if member.assigned_id}
        return {name.removeprefix(group) for name in members} | assigned

    def _process_request(
        self, request: Observation, heartbeat: Heartbeat, progress: Progress
    ) -> MemberProgress | None:
        group_id, member_id = heartbeat.group_id, heartbeat.member_id
        if not group_id or not member_id or not heartbeat.has_member_id:
            return None
        name = member_name(group_id, member_id)
        if name not in self.known and not self._add(name, request, progress):
            return None
        member = self.known[name]
        member.epoch, member.answered = heartbeat.member_epoch or JOINING, False
        if member.epoch == JOINING and member.joined_as is None:
            member.joined_as = request.correlation_id
        return progress.members[name]

    def _add(self, name: str, request: Observation, progress: Progress) -> bool:
        if len(self.known) >= MEMBER_LIMIT:
            left = next((other for other, member in self.known.items() if member.has_left), None)
            if left is None:
                return False
            del self.known[left], progress.members[left]
        self.known[name] = Member()
        progress.members[name] = MemberProgress(request.first_captured_at, request.first_captured_at)
        return True

    def _process_response(self, response: Observation, progress: Progress) -> None:
        body = response.body
        if not isinstance(body, HeartbeatResponse):
            self.hidden = True
            return
        for name, member in self.known.items():
            if progress.members[name].heartbeat == response.paired_sequence:
                member.answered = True
                member.assigned_id = body.member_id
                member.error_code = body.error_code
                member.heartbeat_interval = body.heartbeat_interval or member.heartbeat_interval

    def _forget_responses(self, progress: Progress) -> None:
        """Forget what responses said: frames are missing, and newer ones may have been among them."""
        for name, member in self.known.items():
            progress.members[name].heartbeat = 0
            self.known[name] = Member(epoch=member.epoch, joined_as=member.joined_as)


def member_name(group_id: str, member_id: str) -> str:
    """Name a member of a group: both IDs, separated by the first zero byte.

    Kafka takes a group ID with zero bytes, too. They become `ZERO`, so that no group's names begin like those
    of another.
    """
    return f"{group_id.replace(_SEPARATOR, ZERO)}{_SEPARATOR}{member_id}"


def split_name(name: str) -> tuple[str, str]:
    """Return the group ID and the member ID that a `member_name` is made of, "" and "" for an empty name."""
    group_id, _, member_id = name.partition(_SEPARATOR)
    return group_id, member_id
