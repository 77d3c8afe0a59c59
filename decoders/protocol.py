"""Kafka's API keys, error codes, member epochs and header sizes, as far as code refers to them by name."""

from __future__ import annotations

from typing import Final

# API keys: clients/src/main/resources/common/message/*Request.json, "apiKey".
PRODUCE: Final = 0
METADATA: Final = 3
OFFSET_COMMIT: Final = 8
JOIN_GROUP: Final = 11
LEAVE_GROUP: Final = 13
SASL_HANDSHAKE: Final = 17
API_VERSIONS: Final = 18
TXN_OFFSET_COMMIT: Final = 28
DESCRIBE_ACLS: Final = 29
CREATE_ACLS: Final = 30
DELETE_ACLS: Final = 31
SASL_AUTHENTICATE: Final = 36
DESCRIBE_CLUSTER: Final = 60
CONSUMER_GROUP_HEARTBEAT: Final = 68
GET_TELEMETRY_SUBSCRIPTIONS: Final = 71
PUSH_TELEMETRY: Final = 72
SHARE_GROUP_HEARTBEAT: Final = 76
SHARE_FETCH: Final = 78
SHARE_ACKNOWLEDGE: Final = 79
STREAMS_GROUP_HEARTBEAT: Final = 88

NAMES_SOFTWARE_FROM: Final = 3
"""The first version of ApiVersions that names the client's software (KIP-511)."""
NAMES_BROKER_FROM: Final = 5
"""The first version of ApiVersions that may name the cluster and node it means to reach (KIP-1242)."""

OPENING_APIS: Final = frozenset({API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE})
"""The APIs with which a connection may begin, whatever the listener demands. Any other is a use of it."""
HEARTBEAT_APIS: Final = {
    CONSUMER_GROUP_HEARTBEAT: "ConsumerGroupHeartbeat",
    SHARE_GROUP_HEARTBEAT: "ShareGroupHeartbeat",
    STREAMS_GROUP_HEARTBEAT: "StreamsGroupHeartbeat",
}
"""The APIs whose member ID KIP-1082 covers, by key."""

# Error codes: org.apache.kafka.common.protocol.Errors.
NO_ERROR: Final = 0
UNSUPPORTED_VERSION: Final = 35
INVALID_REQUEST: Final = 42
REBOOTSTRAP_REQUIRED: Final = 129

# Member epochs of a heartbeat (KIP-848). A positive epoch is that of a member of the group.
JOINING: Final = 0
LEAVING: Final = -1
STATIC_LEAVING: Final = -2
"""The epoch of a static member that leaves for a while."""

API_LEAD: Final = 4
"""Bytes with which every request begins: API key and version."""
REQUEST_LEAD: Final = 8
"""Bytes with which every request begins: API key, version and correlation ID."""
RESPONSE_LEAD: Final = 4
"""Bytes with which every response begins: the correlation ID."""
