"""The client ID and the client instance ID that a connection goes by, and how to speak of it without them.

What routine comes to does not depend on which IDs a client has, only on whether a frame names the
connection's own: connections that stand alike but for these, and are told alike, are judged alike. Not so
where a rule knows an ID by itself: the empty client ID, and the instance IDs that Kafka reserves.
"""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple, TypeVar

import msgspec

from expectations.conversation.conversation import Conversation, FirstRequest
from expectations.conversation.identifier import RESERVED

NO_ID: Final = 0
"""The number of an ID that is not there, or that a rule knows by itself."""
Named = TypeVar("Named", Conversation, FirstRequest)


class OwnIds(NamedTuple):
    """A connection's IDs; None where there is none, or one that a rule knows by itself."""

    client_id: str | None
    instance_id: bytes | None

    @classmethod
    def of(cls, conversation: Conversation) -> OwnIds:
        """Give those of a connection."""
        client_id, instance_id = conversation.client_id, conversation.instance_id
        return cls(
            client_id if client_number(client_id) else None,
            instance_id if instance_number(instance_id) else None,
        )

    def left_out_of(self, named: Named) -> tuple[Named, bool, bool]:
        """Give it without these IDs, and whether it had the client ID and the instance ID."""
        has_client = self.client_id is not None and named.client_id == self.client_id
        has_instance = self.instance_id is not None and named.instance_id == self.instance_id
        unnamed = msgspec.structs.replace(
            named,
            client_id=None if has_client else named.client_id,
            instance_id=None if has_instance else named.instance_id,
        )
        return unnamed, has_client, has_instance


def id_number(identifier: bytes) -> int:
    """Name an ID by a number of 64 bits, other than NO_ID."""
    return int.from_bytes(hashlib.blake2b(identifier, digest_size=8).digest(), signed=True) or 1


def client_number(client_id: str | None) -> int:
    """Name a client ID; NO_ID if there is none, or it is empty."""
    return id_number(client_id.encode()) if client_id else NO_ID


def instance_number(instance_id: bytes | None) -> int:
    """Name a client instance ID; NO_ID if there is none, or it is reserved."""
    return id_number(instance_id) if instance_id and instance_id not in RESERVED else NO_ID
