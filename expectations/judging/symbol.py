"""Symbols: the inputs of the automaton that the judgement cache builds (`streaming/judging`).

A symbol is the class of statements that no fingerprint tells apart: statements that differ only in IDs which
are the connection's own have equal symbols. Two kinds of statements have one, since nothing else in them is
read:

- a plain frame: a clean request or response without a body that rules read, of an API that no rule names;
- a clean heartbeat request or response whose member ID has Kafka's own form.
"""

from __future__ import annotations

from typing import Final

import msgspec

from decoders.frame.record import Kind
from expectations.conversation.bodies import Heartbeat, HeartbeatResponse
from expectations.conversation.identifier import identifier_bytes
from expectations.conversation.statement import Statement
from expectations.judging.id_numbers import (
    NO_ID,
    client_number,
    instance_number,
    is_ordinary,
    member_number,
)
from expectations.rules.catalogue import RULES

NAMED_APIS: Final = frozenset().union(*(rule.apis or () for rule in RULES))
"""The APIs that rules name."""
_ENCODER: Final = msgspec.msgpack.Encoder()


class Symbol:
    """The symbol of a statement.

    `code` identifies it, as bytes of which none is a prefix of another's; it is empty if the statement has no
    symbol. The numbers of the IDs that the code leaves out are `client`, `instance` and `member`, NO_ID if
    the statement has none.
    """

    __slots__ = ("client", "code", "instance", "is_heartbeat", "is_response", "member", "statement")

    def __init__(self, statement: Statement) -> None:
        heartbeat = _ordinary_heartbeat(statement)
        self.statement = statement
        self.is_response = statement.kind is Kind.RESPONSE
        self.is_heartbeat = heartbeat is not None
        self.client = self.instance = self.member = NO_ID
        self.code = b""
        if heartbeat is not None or _is_plain(statement):
            self.client = client_number(statement.client_id)
            self.instance = instance_number(statement.client_instance_id)
            self.member = member_number(heartbeat.member_id) if heartbeat is not None else NO_ID
            self.code = _ENCODER.encode(self._without_ids(heartbeat))

    def _without_ids(self, heartbeat: Heartbeat | HeartbeatResponse | None) -> tuple[object, ...]:
        """Remove the IDs, and say which there were, and whether the member ID is the instance ID."""
        statement, body, is_instance = self.statement, heartbeat, False
        if body is not None and body.member_id is not None:
            is_instance = identifier_bytes(body.member_id) == statement.instance_id
            body = msgspec.structs.replace(body, member_id="")
        unnamed = msgspec.structs.replace(
            statement,
            client_id=None if self.client != NO_ID else statement.client_id,
            client_instance_id=None if self.instance != NO_ID else statement.client_instance_id,
            body=body,
        )
        return unnamed, self.client != NO_ID, self.instance != NO_ID, is_instance


def _is_plain(statement: Statement) -> bool:
    return statement.body is None and statement.api_key not in NAMED_APIS and statement.is_clean


def _ordinary_heartbeat(statement: Statement) -> Heartbeat | HeartbeatResponse | None:
    """Return a clean heartbeat of a member with an ordinary ID, or a response that names no other."""
    body = statement.body
    if not isinstance(body, Heartbeat | HeartbeatResponse) or not statement.is_clean:
        return None
    if body.member_id is None:
        return body if isinstance(body, HeartbeatResponse) else None
    return body if is_ordinary(body.member_id) else None
