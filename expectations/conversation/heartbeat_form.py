"""Whether a heartbeat has, apart from its member ID, the form that brokers demand.

Brokers refuse any other form with INVALID_REQUEST, as they refuse a missing member ID. So a refusal is about
the member ID only if everything else is well formed. What brokers demand is in GroupCoordinatorService,
throwIfConsumerGroupHeartbeatRequestIsInvalid and throwIfShareGroupHeartbeatRequestIsInvalid.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from decoders.protocol import CONSUMER_GROUP_HEARTBEAT, JOINING, LEAVING, SHARE_GROUP_HEARTBEAT
from expectations.conversation.bounded_text import is_blank

STATIC_LEAVING: Final = -2
"""The epoch of a static member that leaves for a while."""
NO_TIMEOUT: Final = -1


class HeartbeatForm(NamedTuple):
    """What brokers check of a heartbeat. Fields that its API or version does not have are None.

    `topics` and `partitions` are the lengths of the arrays of subscribed topics and owned partitions, None
    for a null.
    """

    api_key: int
    epoch: int | None
    group_id: str | None
    instance_id: str | None
    rack_id: str | None
    topics: int | None
    has_regex: bool
    partitions: int | None
    rebalance_timeout: int | None


def form_of(api_key: int, body: Mapping[str, Any]) -> HeartbeatForm:
    """Return the form of a decoded heartbeat."""
    topics, partitions = body.get("subscribedTopicNames"), body.get("topicPartitions")
    return HeartbeatForm(
        api_key,
        body["memberEpoch"],
        body["groupId"],
        body.get("instanceId"),
        body.get("rackId"),
        None if topics is None else len(topics),
        body.get("subscribedTopicRegex") is not None,
        None if partitions is None else len(partitions),
        body.get("rebalanceTimeoutMs"),
    )


def is_well_formed(form: HeartbeatForm) -> bool:
    """Whether nothing but the member ID can be wrong with a heartbeat; False for an API of unknown form."""
    optional_names = form.instance_id, form.rack_id
    if is_blank(form.group_id) or any(name is not None and is_blank(name) for name in optional_names):
        return False
    if form.api_key == CONSUMER_GROUP_HEARTBEAT:
        is_static = form.epoch == STATIC_LEAVING and form.instance_id is not None
        return is_static or _stays_or_leaves(form.epoch) or (form.epoch == JOINING and _joins_consumers(form))
    if form.api_key == SHARE_GROUP_HEARTBEAT:
        return _stays_or_leaves(form.epoch) or (form.epoch == JOINING and bool(form.topics))
    return False


def _stays_or_leaves(epoch: int | None) -> bool:
    return epoch is not None and (epoch > JOINING or epoch == LEAVING)


def _joins_consumers(form: HeartbeatForm) -> bool:
    is_subscribed = form.topics is not None or form.has_regex
    return is_subscribed and form.partitions == 0 and form.rebalance_timeout != NO_TIMEOUT
