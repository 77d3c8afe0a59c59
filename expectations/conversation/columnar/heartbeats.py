"""The bodies of heartbeats and their responses, read as columns: each member has an ID of its own."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from decoders.codec.columnar.frames import DecodedFrames
from decoders.codec.columnar.projection import LENGTH
from decoders.protocol import HEARTBEAT_APIS
from decoders.schema.model import Struct
from decoders.schema.registry import Schemas
from expectations.conversation.bodies import Heartbeat, HeartbeatResponse
from expectations.conversation.columnar.found_column import FoundColumn
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
        FoundColumn(decoded, first_column + column, numbers) for column in range(len(_COLUMNS))
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
