"""Which members send offset commits and Share requests, read as columns: places to compare, and bodies."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from decoders.codec.columnar.frames import DecodedFrames
from decoders.schema.registry import Schemas
from expectations.conversation.bodies import LONGEST_OWN_MEMBER_ID, MemberRequest
from expectations.conversation.body_reader import COMMITS, MEMBER_REQUESTS
from expectations.conversation.bounded_text import bounded

_COLUMNS: Final = {"sending_group_id": "groupId", "sending_member_id": "memberId"}
_LENGTH: Final = 3
"""The column of a place with the length of the member ID."""

_Integers = NDArray[np.int64]


def member_columns(schemas: Schemas) -> dict[str, list[str]]:
    """Return the fields to read as columns, in the order that `member_places` expects."""
    apis = [api for key in MEMBER_REQUESTS if (api := schemas.api(key)) is not None]
    wanted = {name: [f"{api.request.name}.{field}" for api in apis] for name, field in _COLUMNS.items()}
    return wanted if apis else {}


def member_places(decoded: DecodedFrames, first_column: int) -> _Integers:
    """Return where in the data each frame names the member that sends it; no rows if none does.

    `first_column` is the number of the first member column. A row holds begin and length of the group ID,
    then of the member ID; all are -1 in frames whose statements have no `MemberRequest`.
    """
    found = decoded.found
    members = found[found[:, 1] == first_column + 1]
    # A classic coordinator makes the IDs of its members, which are longer.
    is_commit = np.isin(decoded.heads["api_key"][members[:, 0]], COMMITS)
    kept = (members[:, 3] > 0) & (~is_commit | (members[:, 3] <= LONGEST_OWN_MEMBER_ID))
    members = members[kept]
    if not len(members):
        return np.empty((0, 4), np.int64)
    places = np.full((len(decoded.frames), 4), -1, np.int64)
    groups = found[found[:, 1] == first_column]
    places[groups[:, 0], :2] = groups[:, 2:]
    places[members[:, 0], 2:] = members[:, 2:]
    places[places[:, _LENGTH] < 0] = -1
    return places


def member_requests(
    decoded: DecodedFrames, places: _Integers, numbers: _Integers
) -> list[MemberRequest | None]:
    """Return the bodies of frames, None for those that name no member. `places` are `member_places`."""
    if not len(places):
        return [None] * len(numbers)
    data = decoded.frames.data.data
    texts = [
        (_text(data, group, group_length), _text(data, member, length))
        for group, group_length, member, length in places[numbers].tolist()
    ]
    return [
        None if member_id is None else MemberRequest(group_id, member_id) for group_id, member_id in texts
    ]


def _text(data: memoryview, begin: int, length: int) -> str | None:
    return None if length < 0 else bounded(str(data[begin : begin + length], "utf-8"))
