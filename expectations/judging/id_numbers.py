"""IDs as 64-bit numbers, for comparing a frame's IDs with those of its connection.

A verdict does not depend on which IDs a client has, only on whether a frame carries the connection's own. So
fingerprints and symbols leave IDs out, and hold whether they are the connection's own. An ID that a rule
knows by itself is not left out: the empty client ID, reserved UUIDs, and member IDs that are not in Kafka's
form.
"""

from __future__ import annotations

import functools
import hashlib
from typing import Final

from expectations.conversation.identifier import RESERVED, identifier_bytes, is_kafkas_form

NO_ID: Final = 0
"""The number of an ID that is missing, or that a rule knows by itself."""


@functools.lru_cache(maxsize=100_000)
def client_number(client_id: str | None) -> int:
    """Return the number of a client ID, NO_ID if it is missing or empty."""
    return _number(client_id.encode()) if client_id else NO_ID


def instance_number(instance_id: bytes | None) -> int:
    """Return the number of a client instance ID, NO_ID if it is missing or reserved."""
    return _number(instance_id) if instance_id and instance_id not in RESERVED else NO_ID


@functools.lru_cache(maxsize=100_000)
def member_number(member_id: str | None) -> int:
    """Return the number of a member ID, NO_ID if it is missing or not `is_ordinary`."""
    return _number(member_id.encode()) if member_id is not None and is_ordinary(member_id) else NO_ID


def is_ordinary(member_id: str) -> bool:
    """Whether a member ID has Kafka's own form and is not reserved: rules on its form see no difference."""
    return is_kafkas_form(member_id) and identifier_bytes(member_id) not in RESERVED


def _number(identifier: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(identifier, digest_size=8).digest(), signed=True) or 1
