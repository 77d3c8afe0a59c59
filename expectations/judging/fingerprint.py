"""Fingerprints: the states of the automaton that the judgement cache builds (`streaming/judging`).

A fingerprint covers everything that a verdict on a cacheable statement may depend on, and nothing else: two
connections with equal fingerprints get equal verdicts for equal statements. It leaves out

- which connection it is and where it leads, which only claims and findings name, and the values of its own
  client ID, client instance ID and member ID;
- sequences, which count the frames of a whole run: rules only compare them, so their order is covered;
- the progress, which only rules that declare `uses_progress` read, and those are not cached;
- facts that only statements read which are not cacheable: telemetry, and the states of rules on named APIs.

The connection's fingerprint covers plain frames. Heartbeats depend on the facts of their member and on the
rules that name heartbeats as well; the member's fingerprint covers those.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from decoders.protocol import HEARTBEAT_APIS
from expectations.conversation.conversation import Conversation, FirstRequest
from expectations.conversation.identifier import identifier_bytes
from expectations.conversation.members import Member, Members
from expectations.conversation.progress import Progress
from expectations.conversation.telemetry import Telemetry
from expectations.judging.id_numbers import NO_ID, client_number, instance_number, is_ordinary
from expectations.judging.judge import ConnectionState
from expectations.rules.base.after_response_rule import SuspectedOffences
from expectations.rules.base.response_rule import Awaited
from expectations.rules.catalogue import RULES, ChangedStates, kept_name

FINGERPRINT_BYTES: Final = 16
_changed_general: Final = ChangedStates(
    [name for rule in RULES if rule.apis is None and (name := kept_name(rule))]
)
"""Picks the changed states of rules on all APIs."""
_changed_of_heartbeats: Final = ChangedStates(
    [name for rule in RULES if rule.apis and rule.apis & set(HEARTBEAT_APIS) and (name := kept_name(rule))]
)
"""Picks the changed states of rules that name heartbeats."""
_OWN_MEMBER_ID: Final = b"\x00own member ID\x00"
_ENCODER: Final = msgspec.msgpack.Encoder()
_Named = TypeVar("_Named", Conversation, FirstRequest)


def fingerprint_of(state: ConnectionState) -> bytes | None:
    """Return the fingerprint of a connection, FINGERPRINT_BYTES bytes.

    None while a rule on all APIs waits for the response to a request: the verdict on a response then depends
    on the request it belongs to, which symbols leave out. So does what an ApiVersions response changes.
    """
    rules = list(_changed_general(state.rules).items())
    conversation, identities = state.conversation, state.identities
    if _are_waiting(kept for _, kept in rules) or conversation.negotiation.waiting:
        return None
    ranks = _ranks_of_sequences(conversation, rules)
    rules = [(name, _ranked(kept, ranks)) for name, kept in rules]
    client_id = conversation.client_id if client_number(conversation.client_id) != NO_ID else None
    instance_id = conversation.instance_id if instance_number(conversation.instance_id) != NO_ID else None
    negotiation = conversation.negotiation
    facts = msgspec.structs.replace(
        conversation,
        connection=b"",
        cluster="",
        client="",
        server="",
        run=0,
        opened_at=0,
        advertised=_ranked(conversation.advertised, ranks),
        superseded=None,
        instance_id_sequence=ranks[conversation.instance_id_sequence],
        latest_handshake=ranks[conversation.latest_handshake],
        first_request=None,
        first_identified=None,
        negotiation=msgspec.structs.replace(
            negotiation,
            answered=None,
            given_up=[],
            errors={code: ranks[sequence] for code, sequence in negotiation.errors.items()},
        ),
        telemetry=Telemetry(),
        members=Members(),
        progress=Progress(),
    )
    firsts = [
        first and _without_ids(_ranked(first, ranks), client_id, instance_id)
        for first in (conversation.first_request, conversation.first_identified)
    ]
    shown = (identities.client is None, identities.instance is None)
    # These stand until the next observation clears them, which a cached transition would not do.
    passing = (
        bool(conversation.members.silences),
        conversation.superseded is not None,
        negotiation.answered is not None,
        bool(negotiation.given_up),
    )
    refused = identities.refusals
    refusals = (refused.in_a_row > 0, refused.is_malformed, sorted(refused.claimed))
    negotiated = [bool(value) for value in msgspec.structs.astuple(identities.negotiated)]
    named = _without_ids(facts, client_id, instance_id)
    return _hash((named, firsts, shown, passing, refusals, negotiated, rules))


def _are_waiting(states: Iterable[object]) -> bool:
    """Whether a rule waits for the response to a request."""
    return any(isinstance(kept, Awaited | SuspectedOffences) and kept.is_waiting for kept in states)


def _ranks_of_sequences(
    conversation: Conversation, rules: list[tuple[str, msgspec.Struct]]
) -> dict[int, int]:
    """Number the sequences that facts and rules keep, in their order; 0 stands for none and stays 0."""
    kept = conversation.advertised, conversation.first_request, conversation.first_identified
    sequences = [getattr(each, "sequence", 0) for each in (*kept, *(state for _, state in rules))]
    single = conversation.instance_id_sequence, conversation.latest_handshake
    ordered = sorted({0, *sequences, *single, *conversation.negotiation.errors.values()})
    return {sequence: rank for rank, sequence in enumerate(ordered)}


def _ranked(kept: Any, ranks: Mapping[int, int]) -> Any:
    """Replace the field `sequence`, where there is one, by its rank."""
    if not hasattr(kept, "sequence"):
        return kept
    return msgspec.structs.replace(kept, sequence=ranks[kept.sequence])


def _without_ids(
    named: _Named, client_id: str | None, instance_id: bytes | None
) -> tuple[_Named, bool, bool]:
    """Remove the connection's own IDs, and say which of them were there."""
    has_client = client_id is not None and named.client_id == client_id
    has_instance = instance_id is not None and named.instance_id == instance_id
    unnamed = msgspec.structs.replace(
        named,
        client_id=None if has_client else named.client_id,
        instance_id=None if has_instance else named.instance_id,
    )
    return unnamed, has_client, has_instance


def only_member(state: ConnectionState) -> tuple[str, str] | None:
    """Return group ID and member ID of a connection's member; None if it has none, several, or an odd ID."""
    if len(state.conversation.members.known) != 1:
        return None
    group_id, _, member_id = next(iter(state.conversation.members.known)).partition("\0")
    return (group_id, member_id) if is_ordinary(member_id) else None


def member_fingerprint_of(state: ConnectionState, group_id: str, member_id: str) -> bytes | None:
    """Return the fingerprint of a connection's only member, FINGERPRINT_BYTES bytes.

    None while a rule on heartbeats waits for the response to one.
    """
    conversation, changed = state.conversation, list(_changed_of_heartbeats(state.rules).items())
    if _are_waiting(kept for _, kept in changed):
        return None
    ((name, member),) = conversation.members.known.items()
    is_instance = identifier_bytes(member_id) == conversation.instance_id
    is_shown = name in state.identities.members
    rules = _ENCODER.encode(changed)
    # An ordinary ID is 22 characters of a UUID: where these bytes stand, they are this ID.
    rules = rules.replace(member_id.encode(), _OWN_MEMBER_ID)
    return _hash((group_id, is_instance, is_shown, *_without_id(member, member_id), rules))


def _without_id(member: Member, member_id: str) -> tuple[Member, bool]:
    """Remove the member's own ID from its facts, and say whether the broker assigned it."""
    was_assigned = member.assigned_id == member_id
    return msgspec.structs.replace(
        member, assigned_id=None if was_assigned else member.assigned_id
    ), was_assigned


def _hash(covered: object) -> bytes:
    return hashlib.blake2b(_ENCODER.encode(covered), digest_size=FINGERPRINT_BYTES).digest()
