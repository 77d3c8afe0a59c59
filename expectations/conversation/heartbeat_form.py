"""Whether a heartbeat has, apart from its member ID, the form that brokers demand.

Brokers refuse any other form with INVALID_REQUEST, as they refuse a missing member ID. So a refusal is about
the member ID only if everything else is well formed. What brokers demand is in GroupCoordinatorService,
throwIfConsumerGroupHeartbeatRequestIsInvalid and throwIfShareGroupHeartbeatRequestIsInvalid.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from decoders.protocol import CONSUMER_GROUP_HEARTBEAT, JOINING, LEAVING, SHARE_GROUP_HEARTBEAT
from expectations.conversation.bounded_text import is_blank

STATIC_LEAVING: Final = -2
"""The epoch of a static member that leaves for a while."""
NO_TIMEOUT: Final = -1


def are_well_formed(group_id: str | None, instance_id: str | None, rack_id: str | None) -> bool:
    """Whether the names of a heartbeat are: the group has one, and the others are null or not blank."""
    return not is_blank(group_id) and not any(
        name is not None and is_blank(name) for name in (instance_id, rack_id)
    )


def is_well_formed(api_key: int, body: Mapping[str, Any]) -> bool:
    """Whether nothing but the member ID can be wrong with a heartbeat; False for an API of unknown form."""
    if not are_well_formed(body["groupId"], body.get("instanceId"), body.get("rackId")):
        return False
    epoch = body["memberEpoch"]
    if api_key == CONSUMER_GROUP_HEARTBEAT:
        is_static = epoch == STATIC_LEAVING and body["instanceId"] is not None
        return _stays_or_leaves(epoch) or is_static or (epoch == JOINING and _joins_consumers(body))
    if api_key == SHARE_GROUP_HEARTBEAT:
        return _stays_or_leaves(epoch) or (epoch == JOINING and bool(body["subscribedTopicNames"]))
    return False


def _stays_or_leaves(epoch: int) -> bool:
    return epoch > JOINING or epoch == LEAVING


def _joins_consumers(body: Mapping[str, Any]) -> bool:
    is_subscribed = body["subscribedTopicNames"] is not None or body.get("subscribedTopicRegex") is not None
    return is_subscribed and body["topicPartitions"] == [] and body["rebalanceTimeoutMs"] != NO_TIMEOUT
