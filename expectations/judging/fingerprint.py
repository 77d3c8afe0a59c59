"""Where a connection stands, and what a window says, as far as judging what is routine goes.

A plain frame is a clean request or answer of an API that no rule speaks of, without anything in its body
that a rule reads. Where two connections stand alike and are told alike, the judge says alike, whoever they
are and whenever it is.
"""

from __future__ import annotations

import hashlib
import operator
from typing import Final

import msgspec

from decoders.frame.record import Kind
from expectations.conversation.connection_window import Moment
from expectations.conversation.identifier import identifier_bytes
from expectations.conversation.observation import Heartbeat, HeartbeatAnswer, Observation
from expectations.conversation.telemetry import Telemetry
from expectations.conversation.unanswered import Unanswered
from expectations.judging.judge import ConnectionState
from expectations.judging.membership import NO_MEMBER, is_ordinary, member_number
from expectations.judging.own_ids import NO_ID, OwnIds, client_number, instance_number
from expectations.rules.catalogue import RULES, ChangedStates, kept_name

STANDING_BYTES: Final = 16
NAMED_APIS: Final = frozenset().union(*(rule.apis or () for rule in RULES))
"""The APIs that rules speak of by name."""
_changed_general: Final = ChangedStates(
    [name for rule in RULES if rule.apis is None and (name := kept_name(rule))]
)
"""Picks of the states of rules that hear all APIs."""
_OWN: Final = frozenset(Moment.__struct_fields__)
_LIKENESS: Final = operator.attrgetter(*(name for name in Observation.__struct_fields__ if name not in _OWN))
_ENCODER: Final = msgspec.msgpack.Encoder()


class Saying:
    """What like observations say, and whether that is plain, or a heartbeat of an ordinary member.

    `likeness` names it, in bytes of which none begins as another one goes on, but for the IDs of `client`,
    `instance` and `member` that it names; these are numbers. `owed` tells how many answers to `asked`, an
    API version, are owed for it: one, none, or one less for an answer.
    """

    __slots__ = (
        "asked",
        "client",
        "instance",
        "is_answer",
        "is_heartbeat",
        "is_plain",
        "likeness",
        "member",
        "observation",
        "owed",
    )

    def __init__(self, observation: Observation) -> None:
        heartbeat = _heartbeat(observation)
        self.observation = observation
        self.asked = observation.api_key, observation.api_version
        self.is_answer = observation.kind is Kind.RESPONSE
        self.owed = -1 if self.is_answer else int(observation.owes_answer)
        self.is_plain = (
            observation.body is None and observation.api_key not in NAMED_APIS and observation.is_clean
        )
        self.is_heartbeat = heartbeat is not None
        self.member = NO_MEMBER
        self.client, self.instance = NO_ID, NO_ID
        self.likeness = b""
        if self.is_plain or heartbeat is not None:
            self.client = client_number(observation.client_id)
            self.instance = instance_number(observation.client_instance_id)
            self.likeness = _ENCODER.encode(self._named_otherwise(heartbeat))
        if heartbeat is not None:
            self.member = NO_MEMBER if heartbeat.member_id is None else member_number(heartbeat.member_id)

    def _named_otherwise(self, heartbeat: Heartbeat | HeartbeatAnswer | None) -> tuple[object, ...]:
        """Say it without IDs; which there were, and if one is member and instance alike, stands beside."""
        observation, body = self.observation, heartbeat
        is_instance = False
        if body is not None and body.member_id is not None:
            is_instance = identifier_bytes(body.member_id) == observation.instance_id
            body = msgspec.structs.replace(body, member_id="")
        unnamed = msgspec.structs.replace(
            observation,
            client_id=None if self.client else observation.client_id,
            client_instance_id=None if self.instance else observation.client_instance_id,
            body=body,
        )
        return _LIKENESS(unnamed), self.client != NO_ID, self.instance != NO_ID, is_instance


def _heartbeat(observation: Observation) -> Heartbeat | HeartbeatAnswer | None:
    """Give a clean heartbeat of an ordinary member, or an answer that names nobody else."""
    body = observation.body
    if not isinstance(body, Heartbeat | HeartbeatAnswer) or not observation.is_clean:
        return None
    if body.member_id is None:
        return body if isinstance(body, HeartbeatAnswer) else None
    return body if is_ordinary(body.member_id) else None


def standing_of(state: ConnectionState) -> bytes:
    """Name all that judging a plain frame may depend on, in STANDING_BYTES bytes.

    Left out are who the connection is and by which IDs it goes, what moves with each frame, which requests
    wait, and what rules that hear named APIs only ask or keep. Sightings count by whether there is one.
    """
    own = OwnIds.of(state.conversation)
    unnamed, *named = own.left_out_of(state.conversation)
    firsts = [
        first and own.left_out_of(first)
        for first in (state.conversation.first_request, state.conversation.first_identified)
    ]
    facts = msgspec.structs.replace(
        unnamed,
        connection=b"",
        client="",
        opened_at=0,
        latest_sequence=0,
        latest_captured_at=0,
        latest_loss=0,
        first_request=None,
        first_identified=None,
        unanswered=Unanswered(),
        telemetry=Telemetry(),
    )
    sightings = state.sightings
    shown = (sightings.client is None, sightings.instance is None)
    negotiated = [time > 0 for time in msgspec.structs.astuple(sightings.negotiated)]
    told = (facts, named, firsts, shown, negotiated, list(_changed_general(state.rules).items()))
    return hashlib.blake2b(_ENCODER.encode(told), digest_size=STANDING_BYTES).digest()
