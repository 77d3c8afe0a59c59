"""Marks the values that are a connection's own: sequences, times and IDs.

Verdicts do not depend on such a value, only on how it compares with others: whether a frame carries the ID
that the connection showed before, which of two frames came first. So the automaton keeps them in registers,
and connections that differ in nothing else share their facts (`expectations/judging/canonical.py`). Each
number and text of a stored type is annotated with one of the types below; a test refuses one that is not.
"""

from __future__ import annotations

import enum
from typing import Annotated, Final


class Own(enum.Enum):
    """The kinds of own values."""

    NUMBER = "number"
    """A number of which zero and less stand for themselves: a sequence, a time, an epoch."""
    ANY_NUMBER = "any number"
    """A number that is always an own value, zero and negative ones included."""
    TEXT = "text"
    """A client ID, a group ID, a principal or a placement; a blank one stands for itself."""
    UUID = "UUID"
    """The 16 bytes of a UUID; a reserved one stands for itself."""
    UUID_TEXT = "UUID as text"
    """A UUID in one of the forms of `UuidForm`; any other text stands for itself."""
    MEMBER_NAME = "member name"
    """A group ID and a member ID, as `member_name` writes them."""


BY_VALUE: Final = "by value"
"""Marks numbers that verdicts depend on."""

SequenceNumber = Annotated[int, Own.NUMBER]
Time = Annotated[int, Own.NUMBER]
"""Nanoseconds since the epoch."""
Epoch = Annotated[int, Own.NUMBER]
"""A member epoch. Those that join or leave a group stand for themselves."""
Count = Annotated[int, Own.NUMBER]
CorrelationId = Annotated[int, Own.ANY_NUMBER]
ClientId = Annotated[str, Own.TEXT]
GroupId = Annotated[str, Own.TEXT]
PrincipalName = Annotated[str, Own.TEXT]
PlacementName = Annotated[str, Own.TEXT]
InstanceId = Annotated[bytes, Own.UUID]
MemberId = Annotated[str, Own.UUID_TEXT]
MemberName = Annotated[str, Own.MEMBER_NAME]

ApiKey = Annotated[int, BY_VALUE]
Version = Annotated[int, BY_VALUE]
ErrorCode = Annotated[int, BY_VALUE]
NodeId = Annotated[int, BY_VALUE]
Milliseconds = Annotated[int, BY_VALUE]
Bytes = Annotated[int, BY_VALUE]
Few = Annotated[int, BY_VALUE]
"""A count that is bounded by a small number."""
