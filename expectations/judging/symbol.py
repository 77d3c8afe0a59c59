"""Symbols: the inputs of the automaton that the judgement cache builds (`streaming/judging`).

A symbol is the class of statements that no fingerprint tells apart: statements that differ only in IDs which
are the connection's own have equal symbols. Three kinds of statements have one, since nothing else in them is
read:

- a plain frame: a clean request or response without a body that rules read, of an API that no rule names. A
  JoinGroup or LeaveGroup request is one: rules read nothing of the group that its body names;
- a clean heartbeat request or response whose member ID has Kafka's own form;
- a clean offset commit or Share request whose member ID has that form.
"""

from __future__ import annotations

from typing import Final

import msgspec

from decoders.frame.record import Kind
from expectations.conversation.bodies import ClassicGroup, Heartbeat, HeartbeatResponse, MemberRequest
from expectations.conversation.identifier import identifier_bytes
from expectations.conversation.in_flight import in_flight_change
from expectations.conversation.progress_numbers import Movement
from expectations.conversation.statement import Statement
from expectations.judging.id_numbers import NO_ID, client_number, instance_number, member_number
from expectations.rules.catalogue import RULES

NAMED_APIS: Final = frozenset().union(*(rule.apis or () for rule in RULES if not rule.needs_body))
"""The APIs that rules name which judge frames without a body, too."""
_ENCODER: Final = msgspec.msgpack.Encoder()
_BodyOfMember = Heartbeat | HeartbeatResponse | MemberRequest


class Symbol:
    """The symbol of a statement.

    `code` identifies it, as bytes of which none is a prefix of another's; it is empty if the statement has no
    symbol. The numbers of the IDs that the code leaves out are `client`, `instance` and `member`, NO_ID if
    the statement has none. `concerns_member` is True if the verdict depends on the facts of the connection's
    member.
    """

    __slots__ = (
        "client",
        "code",
        "concerns_member",
        "instance",
        "is_heartbeat",
        "is_response",
        "member",
        "movement",
        "statement",
    )

    def __init__(self, statement: Statement) -> None:
        body, member = _body_of_member(statement)
        self.statement = statement
        self.is_response = statement.kind is Kind.RESPONSE
        self.is_heartbeat = isinstance(body, Heartbeat | HeartbeatResponse)
        self.client = self.instance = NO_ID
        self.member = member
        self.code = b""
        if body is not None or _is_plain(statement):
            self.client = client_number(statement.client_id)
            self.instance = instance_number(statement.client_instance_id)
            self.code = _ENCODER.encode(self._without_ids(body))
        self.concerns_member = self.is_heartbeat or self.member != NO_ID
        self.movement = Movement(
            statement.kind is Kind.REQUEST, self.is_heartbeat, in_flight_change(statement)
        )

    def _without_ids(self, body: _BodyOfMember | None) -> tuple[object, ...]:
        """Remove the IDs, and say which there were, and whether the member ID is the instance ID."""
        statement, is_instance = self.statement, False
        if body is not None and body.member_id is not None:
            instance_id = statement.instance_id
            is_instance = instance_id is not None and identifier_bytes(body.member_id) == instance_id
            body = msgspec.structs.replace(body, member_id="")
        unnamed = msgspec.structs.replace(
            statement,
            client_id=None if self.client != NO_ID else statement.client_id,
            client_instance_id=None if self.instance != NO_ID else statement.client_instance_id,
            body=body,
        )
        return unnamed, self.client != NO_ID, self.instance != NO_ID, is_instance


def _is_plain(statement: Statement) -> bool:
    has_nothing = statement.body is None or isinstance(statement.body, ClassicGroup)
    return has_nothing and statement.api_key not in NAMED_APIS and statement.is_clean


def _body_of_member(statement: Statement) -> tuple[_BodyOfMember | None, int]:
    """Return the body of a clean frame of a member with an ordinary ID, and the ID's number.

    NO_ID with the body of a response that names none, and without a body.
    """
    body = statement.body
    if not isinstance(body, Heartbeat | HeartbeatResponse | MemberRequest) or not statement.is_clean:
        return None, NO_ID
    if body.member_id is None:
        return body if isinstance(body, HeartbeatResponse) else None, NO_ID
    member = member_number(body.member_id)
    return (None if member == NO_ID else body), member
