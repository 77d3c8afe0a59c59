"""Symbols of openings: a statement apart from the IDs in it that are a connection's own.

A client ID counts as the connection's own unless it is empty, a UUID unless Kafka reserves it or writes it in
another way. Rules compare these with each other, and never look into them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from decoders.frame.record import Kind
from decoders.protocol import API_VERSIONS
from expectations.conversation.bodies import (
    Body,
    Heartbeat,
    HeartbeatResponse,
    MemberRequest,
    TelemetryIdentity,
)
from expectations.conversation.identifier import RESERVED, identifier_bytes, identifier_text
from expectations.conversation.statement import Statement

NO_SYMBOL: Final = 0
EVENTS: Final = frozenset({Kind.OPENED, Kind.CLOSED})
_OF_MEMBERS: Final = Heartbeat | HeartbeatResponse | MemberRequest
_ENCODER: Final = msgspec.msgpack.Encoder()


class OpeningSymbol:
    """The symbol of a statement in an opening.

    `code` identifies it, as bytes, and so does `number`. They are empty and NO_SYMBOL if the statement has no
    symbol: it is neither a clean frame nor the beginning or end of a connection, or it writes a UUID as Kafka
    does not. `client_id` and `identifiers`, UUIDs of 16 bytes, are what the code leaves out, in the order of
    their fields: first the header's client instance ID, then the ID in the body.
    """

    __slots__ = (
        "client_id",
        "code",
        "has_end",
        "has_instance",
        "identifiers",
        "negotiates",
        "number",
        "statement",
    )

    def __init__(self, statement: Statement, number_of: Callable[[bytes], int]) -> None:
        """`number_of` numbers codes from 1."""
        self.statement = statement
        self.client_id = statement.client_id or None
        instance = statement.client_instance_id
        self.has_instance = instance is not None and instance not in RESERVED
        text = _text_of(statement.body)
        named = identifier_bytes(text) if text else None
        is_own = named is not None and named not in RESERVED
        given = (instance if self.has_instance else None, named if is_own else None)
        self.identifiers = tuple(each for each in given if each is not None)
        self.code = b""
        is_usual = statement.kind in EVENTS or statement.is_clean
        if is_usual and (named is None or not is_own or identifier_text(named) == text):
            has = self.client_id is not None, self.has_instance, is_own
            self.code = _ENCODER.encode((self._named(None, None, "" if is_own else None), has))
        self.number = number_of(self.code) if self.code else NO_SYMBOL
        self.has_end = statement.kind is Kind.CLOSED
        self.negotiates = statement.api_key == API_VERSIONS

    def renamed(self, client_id: str | None, identifiers: tuple[bytes, ...]) -> Statement:
        """Return the statement with other IDs in the place of its own."""
        instance = identifiers[0] if self.has_instance else None
        has_body = len(identifiers) > self.has_instance
        return self._named(client_id, instance, identifier_text(identifiers[-1]) if has_body else None)

    def of(self, renamed: Statement) -> OpeningSymbol:
        """Return the symbol of the statement with other IDs in the place of its own."""
        number = self.number
        return OpeningSymbol(renamed, lambda _: number)

    def _named(self, client_id: str | None, instance: bytes | None, text: str | None) -> Statement:
        """Replace the connection's own IDs; `text` is that of the body, None if it has none of its own."""
        statement, body = self.statement, self.statement.body
        if text is not None:
            body = _with_text(body, text)
        return msgspec.structs.replace(
            statement,
            client_id=client_id if self.client_id is not None else statement.client_id,
            client_instance_id=instance if self.has_instance else statement.client_instance_id,
            body=body,
        )


def _text_of(body: Body | None) -> str | None:
    """Return the ID in a body, None if there is none."""
    if isinstance(body, _OF_MEMBERS):
        return body.member_id
    return body.instance_id if isinstance(body, TelemetryIdentity) else None


def _with_text(body: Body | None, text: str) -> Body | None:
    if isinstance(body, TelemetryIdentity):
        return msgspec.structs.replace(body, instance_id=text)
    assert isinstance(body, _OF_MEMBERS)
    return msgspec.structs.replace(body, member_id=text)
