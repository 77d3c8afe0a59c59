"""The bodies of heartbeats and their responses, read as columns: each member has an ID of its own."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from decoders.codec.columnar.frames import DecodedFrames
from decoders.codec.columnar.projection import LENGTH, NULL_LENGTH
from decoders.protocol import HEARTBEAT_APIS
from decoders.schema.model import Struct
from decoders.schema.registry import Schemas
from expectations.conversation.bodies import Heartbeat, HeartbeatResponse
from expectations.conversation.bounded_text import bounded
from expectations.conversation.heartbeat_form import HeartbeatForm, is_well_formed

_COLUMNS: Final = {
    "heartbeat_member_id": (("Request", "memberId"), ("Response", "memberId")),
    "heartbeat_group_id": (("Request", "groupId"),),
    "heartbeat_member_epoch": (("Request", "memberEpoch"),),
    "heartbeat_interval": (("Response", "heartbeatIntervalMs"),),
    "heartbeat_instance_id": (("Request", "instanceId"),),
    "heartbeat_rack_id": (("Request", "rackId"),),
    "heartbeat_topics": (("Request", "subscribedTopicNames" + LENGTH),),
    "heartbeat_regex": (("Request", "subscribedTopicRegex"),),
    "heartbeat_partitions": (("Request", "topicPartitions" + LENGTH),),
    "heartbeat_rebalance_timeout": (("Request", "rebalanceTimeoutMs"),),
}

_Integers = NDArray[np.int64]


def heartbeat_columns(schemas: Schemas) -> dict[str, list[str]]:
    """Return the fields to read as columns, in the order that `heartbeat_bodies` expects."""
    apis = [api for key in HEARTBEAT_APIS if (api := schemas.api(key)) is not None]
    wanted = {
        name: [
            f"{api.name}{kind}.{field}"
            for api in apis
            for kind, field in fields
            if _has((api.request if kind == "Request" else api.response).struct, field)
        ]
        for name, fields in _COLUMNS.items()
    }
    return wanted if apis else {}


def heartbeat_bodies(
    decoded: DecodedFrames, first_column: int, error_codes: NDArray[np.int16], numbers: _Integers
) -> list[Heartbeat | HeartbeatResponse]:
    """Return the bodies of heartbeats and responses that were read whole and without remarks.

    `first_column` is the number of the first heartbeat column. `error_codes` has one element per frame in
    `numbers`; those of requests are ignored.
    """
    members, groups, epochs, intervals, instances, racks, topics, regexes, partitions, timeouts = (
        _Column(decoded, first_column + column, numbers) for column in range(len(_COLUMNS))
    )
    requests, codes = decoded.frames.is_request[numbers].tolist(), error_codes.tolist()
    api_keys = decoded.heads["api_key"][numbers].tolist()

    def heartbeat(at: int) -> Heartbeat:
        group_id, epoch = groups.text(at), epochs.number(at)
        form = HeartbeatForm(
            api_keys[at],
            epoch,
            group_id,
            instances.text(at),
            racks.text(at),
            topics.length(at),
            regexes.is_there(at),
            partitions.length(at),
            timeouts.number(at),
        )
        return Heartbeat(members.text(at), group_id, epoch, is_well_formed(form))

    return [
        heartbeat(at)
        if is_request
        else HeartbeatResponse(codes[at], members.text(at), intervals.number(at) or 0)
        for at, is_request in enumerate(requests)
    ]


def _has(struct: Struct, name: str) -> bool:
    return any(field.name == name.removesuffix(LENGTH) for field in struct.fields)


class _Column:
    """The values of one column for selected frames, by their index among the selected."""

    def __init__(self, decoded: DecodedFrames, column: int, numbers: _Integers) -> None:
        rows = decoded.found[decoded.found[:, 1] == column]
        # Rows are in the order of the frames. A frame without a row has a null in this column.
        places = np.searchsorted(rows[:, 0], numbers)
        rows = np.append(rows, np.full((1, rows.shape[1]), -1, np.int64), axis=0)[places]
        self._values: list[int] = rows[:, 2].tolist()
        self._lengths: list[int] = rows[:, 3].tolist()
        self._is_there: list[bool] = (rows[:, 0] == numbers).tolist()
        self._data: Any = decoded.frames.data.data

    def is_there(self, at: int) -> bool:
        return self._is_there[at]

    def number(self, at: int) -> int | None:
        return self._values[at] if self._is_there[at] else None

    def length(self, at: int) -> int | None:
        """Return the length of an array, None for a null."""
        number = self.number(at)
        return None if number == NULL_LENGTH else number

    def text(self, at: int) -> str | None:
        if not self._is_there[at]:
            return None
        begin = self._values[at]
        return bounded(str(self._data[begin : begin + self._lengths[at]], "utf-8"))
