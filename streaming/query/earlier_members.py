"""What the rule member-id-changed kept before version 5: a member's latest heartbeat as it was observed."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from expectations.catalogue import RULE_STATES
from expectations.conversation.observation import Heartbeat, Observation
from expectations.rules.kip_1082.member_id_changed import (
    DEFAULT_HEARTBEAT_INTERVAL,
    JOINING,
    Member,
    MemberIdChanged,
    MembersState,
)

_CHANGED: Final = MemberIdChanged().state_name


class EarlierMember(msgspec.Struct):
    """A member of one group."""

    member_id: str
    latest: Observation
    answered: bool = False
    assigned_id: str | None = None
    heartbeat_interval: int = DEFAULT_HEARTBEAT_INTERVAL
    rivals: dict[str, Observation] = {}
    shared: bool = False
    pending: int = 0


class EarlierMembers(msgspec.Struct):
    """The members by group."""

    groups: dict[str, EarlierMember] = {}


_KINDS: Final = RULE_STATES.__annotations__ | {_CHANGED: EarlierMembers}
EARLIER_RULE_STATES: Final = msgspec.defstruct(
    "EarlierRuleStates",
    [(name, kind, msgspec.field(default_factory=kind)) for name, kind in _KINDS.items()],
)
"""The states of one connection."""


def rule_states(earlier: Any) -> Any:
    """Give the states as they are today."""
    states = {name: getattr(earlier, name) for name in RULE_STATES.__struct_fields__}
    groups = {group_id: _member(member) for group_id, member in states[_CHANGED].groups.items()}
    return RULE_STATES(**states | {_CHANGED: MembersState(groups)})


def _member(earlier: EarlierMember) -> Member:
    latest = earlier.latest
    epoch = latest.body.member_epoch if isinstance(latest.body, Heartbeat) else None
    return Member(
        earlier.member_id,
        latest.first_sequence,
        latest.last_captured_at,
        JOINING if epoch is None else epoch,
        earlier.answered,
        earlier.assigned_id,
        earlier.heartbeat_interval,
        earlier.rivals,
        earlier.shared,
        earlier.pending,
    )
