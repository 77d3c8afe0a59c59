"""Where a connection stands, and what a window says, as far as judging plain frames goes.

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
from expectations.catalogue import RULES, ChangedStates, kept_name
from expectations.conversation.connection_window import Moment
from expectations.conversation.observation import Heartbeat, HeartbeatAnswer, Observation
from expectations.conversation.unanswered import Unanswered
from expectations.judge import ConnectionState

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
    """What like observations say, and whether that is plain, or clean heartbeats or their answers.

    `likeness` names it, in bytes of which none begins as another one goes on. `owed` tells how many answers
    to `asked`, an API version, are owed for it: one, none, or one less for an answer.
    """

    __slots__ = ("asked", "is_answer", "is_heartbeat", "is_plain", "likeness", "observation", "owed")

    def __init__(self, observation: Observation) -> None:
        clean = observation.is_clean
        self.observation = observation
        self.asked = observation.api_key, observation.api_version
        self.is_answer = observation.kind is Kind.RESPONSE
        self.owed = -1 if self.is_answer else int(observation.owes_answer)
        self.is_plain = clean and observation.body is None and observation.api_key not in NAMED_APIS
        self.is_heartbeat = clean and isinstance(observation.body, Heartbeat | HeartbeatAnswer)
        self.likeness = _ENCODER.encode(_LIKENESS(observation)) if self.is_plain else b""


def standing_of(state: ConnectionState) -> bytes:
    """Name all that judging a plain frame may depend on, in STANDING_BYTES bytes.

    Left out are who the connection is, what moves with each frame, which requests wait, and the states
    of rules that hear named APIs only. Sightings count by whether there is one.
    """
    facts = msgspec.structs.replace(
        state.conversation,
        connection=b"",
        client="",
        opened_at=0,
        latest_sequence=0,
        latest_captured_at=0,
        latest_loss=0,
        unanswered=Unanswered(),
    )
    sightings = state.sightings
    shown = (sightings.client is None, sightings.instance is None)
    negotiated = [time > 0 for time in msgspec.structs.astuple(sightings.negotiated)]
    told = (facts, shown, negotiated, list(_changed_general(state.rules).items()))
    return hashlib.blake2b(_ENCODER.encode(told), digest_size=STANDING_BYTES).digest()
