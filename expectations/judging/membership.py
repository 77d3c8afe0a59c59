"""The one member that a connection speaks for, and where it stands.

Nearly all that send heartbeats are one member of one group. What its heartbeats come to does not depend on
which ID it made, as long as the ID has the form that Kafka's own have: so members that stand alike, and are
told alike, are judged alike.
"""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple

import msgspec

from decoders.protocol import HEARTBEAT_APIS
from expectations.conversation.identifier import RESERVED, identifier_bytes, is_kafkas_form
from expectations.identity.shown import Sighting
from expectations.judging.judge import ConnectionState
from expectations.judging.own_ids import NO_ID, id_number
from expectations.rules.catalogue import RULES, ChangedStates, kept_name
from expectations.rules.kip_1082.member_id_changed import Member, MemberIdChanged, MembersState

MEMBERSHIP_BYTES: Final = 16
NO_MEMBER: Final = NO_ID
_CHANGED: Final = MemberIdChanged().state_name
_changed_named: Final = ChangedStates(
    [name for rule in RULES if rule.apis and rule.apis & set(HEARTBEAT_APIS) and (name := kept_name(rule))]
)
"""Picks of the states of rules that name heartbeats."""
_ENCODER: Final = msgspec.msgpack.Encoder()


class SoleMember(NamedTuple):
    """A member, when it was shown, and what is kept of it."""

    group_id: str
    member_id: str
    sighting: Sighting
    kept: Member

    @property
    def silent(self) -> Member:
        """What is kept of it but for which heartbeat was its latest, and when."""
        return msgspec.structs.replace(self.kept, latest_sequence=0, latest_captured_at=0)

    def silent_states(self) -> dict[str, MembersState]:
        """Give what the rule keeps, by the name of its state, without its latest heartbeat."""
        return {_CHANGED: MembersState({self.group_id: self.silent})}


def sole_member(state: ConnectionState) -> SoleMember | None:
    """Give the member of a connection; None where it has none or several, or an ID of another form."""
    members, groups = state.sightings.members, getattr(state.rules, _CHANGED).groups
    if len(members) != 1 or len(groups) != 1:
        return None
    ((name, sighting),) = members.items()
    ((group_id, kept),) = groups.items()
    if name != f"{group_id}\0{kept.member_id}" or not is_ordinary(kept.member_id):
        return None
    return SoleMember(group_id, kept.member_id, sighting, kept)


def is_ordinary(member_id: str) -> bool:
    """Whether no rule on the form of member IDs tells this one from others of Kafka's own form."""
    return is_kafkas_form(member_id) and identifier_bytes(member_id) not in RESERVED


def membership_of(state: ConnectionState, member: SoleMember) -> bytes:
    """Name all that judging the member's heartbeats may depend on beyond where its connection stands.

    Gives MEMBERSHIP_BYTES bytes. Left out are its ID, and which heartbeat was its latest and when.
    """
    was_assigned = member.kept.assigned_id == member.member_id
    assigned_id = None if was_assigned else member.kept.assigned_id
    kept = msgspec.structs.replace(member.silent, member_id="", assigned_id=assigned_id)
    others = _changed_named(state.rules)
    del others[_CHANGED]
    is_instance = identifier_bytes(member.member_id) == state.conversation.instance_id
    told = _ENCODER.encode((member.group_id, is_instance, was_assigned, kept, list(others.items())))
    return hashlib.blake2b(told, digest_size=MEMBERSHIP_BYTES).digest()


def member_number(member_id: str) -> int:
    """Name a member ID by a number of 64 bits, other than NO_MEMBER."""
    return id_number(member_id.encode())
