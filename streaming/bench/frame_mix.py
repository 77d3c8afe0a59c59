"""A synthetic mix of the frames of a busy cluster: APIs, shares and sizes, for `bench decode`."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import numpy as np

from decoders.codec.columnar.frames import Frames
from decoders.codec.request import write_request
from decoders.codec.response import write_response
from decoders.schema.registry import Schemas

_CLIENT_ID = "orders-service-consumer-1"
_MEMBER_ID = "8zQ4pXkCTt2cYd0sVhGm1A"
_GROUP_ID = "orders-service"
_TOPICS = ("orders", "payments", "shipments")
_TOPIC_ID = "vBxYyYy0QmO1n3Vd2mXkZQ"
_SOFTWARE = {"clientSoftwareName": "apache-kafka-java", "clientSoftwareVersion": "4.4.0"}


@dataclass(frozen=True, slots=True)
class MixedFrames:
    """The mix: each frame in bytes, whether it is a request, and its API key and version."""

    contents: list[bytes]
    is_request: list[bool]
    apis: list[tuple[int, int]]

    def batches(self, size: int) -> list[Frames]:
        """Return the same frames for the columnar reader, in batches of `size`."""
        return [self._batch(slice(begin, begin + size)) for begin in range(0, len(self.contents), size)]

    def _batch(self, part: slice) -> Frames:
        contents = self.contents[part]
        lengths = np.array([len(content) for content in contents], np.int32)
        apis = np.array(self.apis[part], np.int16)
        return Frames(
            data=np.frombuffer(b"".join(contents), np.uint8),
            begins=np.cumsum(lengths, dtype=np.int64) - lengths,
            lengths=lengths,
            is_cut=np.zeros(len(lengths), np.bool_),
            is_request=np.array(self.is_request[part], np.bool_),
            paired_keys=np.ascontiguousarray(apis[:, 0]),
            paired_versions=np.ascontiguousarray(apis[:, 1]),
        )


def mixed_frames(schemas: Schemas, count: int, seed: int = 0) -> MixedFrames:
    """Make `count` frames, half of them requests, in an order that depends on the seed."""
    exchanges = _exchanges()
    shares = np.array([share for share, *_ in exchanges], np.float64)
    chosen = np.random.default_rng(seed).choice(len(exchanges), count, p=shares / shares.sum())
    made = [_frames(schemas, *exchange[1:]) for exchange in exchanges]
    sides = [made[exchange][number % 2] for number, exchange in enumerate(chosen)]
    return MixedFrames(
        contents=[content for content, _ in sides],
        is_request=[number % 2 == 0 for number in range(count)],
        apis=[api for _, api in sides],
    )


def _frames(
    schemas: Schemas, name: str, version: int, request_body: dict[str, Any], response_body: dict[str, Any]
) -> tuple[tuple[bytes, tuple[int, int]], tuple[bytes, tuple[int, int]]]:
    """Encode a request and its response, each with the API key and version."""
    api = schemas.api_named(name)
    assert api is not None
    request = write_request(schemas, name, version, 1_000_000, _CLIENT_ID, request_body)
    response = write_response(schemas, name, version, 1_000_000, response_body)
    return (request, (api.key, version)), (response, (api.key, version))


def _exchanges() -> list[tuple[int, str, int, dict[str, Any], dict[str, Any]]]:
    """The exchanges: share, API, version, request body and response body."""
    return [
        (12, "Produce", 9, *_produce()),
        (24, "Fetch", 16, *_fetch()),
        (24, "Heartbeat", 4, _member(), {}),
        (24, "ConsumerGroupHeartbeat", 0, *_group_heartbeat()),
        (10, "OffsetCommit", 8, *_commit()),
        (3, "Metadata", 12, *_metadata()),
        (2, "FindCoordinator", 4, {"coordinatorKeys": [_GROUP_ID]}, _coordinators()),
        (1, "ApiVersions", 3, _SOFTWARE, _advertised()),
    ]


def _produce() -> tuple[dict[str, Any], dict[str, Any]]:
    records = base64.b64encode(bytes(range(256)) * 4).decode()
    request = [{"name": topic, "partitionData": [{"records": records}]} for topic in _TOPICS[:1]]
    response = [{"name": topic, "partitionResponses": [{"baseOffset": 1 << 40}]} for topic in _TOPICS[:1]]
    return {"acks": -1, "timeoutMs": 30_000, "topicData": request}, {"responses": response}


def _fetch() -> tuple[dict[str, Any], dict[str, Any]]:
    """A fetch of a session: no changes in the request, one partition in the response."""
    records = base64.b64encode(bytes(range(256)) * 2).decode()
    partition = {"highWatermark": 1 << 40, "abortedTransactions": None, "records": records}
    response = {"sessionId": 7, "responses": [{"topicId": _TOPIC_ID, "partitions": [partition]}]}
    return {"maxWaitMs": 500, "minBytes": 1, "sessionId": 7, "sessionEpoch": 99}, response


def _member() -> dict[str, Any]:
    return {"groupId": _GROUP_ID, "generationId": 5, "memberId": _MEMBER_ID}


def _group_heartbeat() -> tuple[dict[str, Any], dict[str, Any]]:
    request = {
        "groupId": _GROUP_ID,
        "memberId": _MEMBER_ID,
        "memberEpoch": 5,
        "subscribedTopicNames": None,
        "topicPartitions": None,
    }
    return request, {"memberId": _MEMBER_ID, "memberEpoch": 5, "heartbeatIntervalMs": 5_000}


def _commit() -> tuple[dict[str, Any], dict[str, Any]]:
    request = [{"partitionIndex": index, "committedOffset": 1 << 40} for index in range(4)]
    response = [{"partitionIndex": index} for index in range(4)]
    group = {"groupId": _GROUP_ID, "generationIdOrMemberEpoch": 5, "memberId": _MEMBER_ID}
    return (
        {**group, "topics": [{"name": topic, "partitions": request} for topic in _TOPICS]},
        {"topics": [{"name": topic, "partitions": response} for topic in _TOPICS]},
    )


def _metadata() -> tuple[dict[str, Any], dict[str, Any]]:
    brokers = [{"nodeId": node, "host": f"broker-{node}.internal", "port": 9092} for node in range(3)]
    partitions = [
        {"partitionIndex": index, "replicaNodes": [0, 1, 2], "isrNodes": [0, 1, 2]} for index in range(6)
    ]
    request = {"topics": [{"name": topic, "topicId": _TOPIC_ID} for topic in _TOPICS]}
    response = [{"name": topic, "topicId": _TOPIC_ID, "partitions": partitions} for topic in _TOPICS]
    return request, {"brokers": brokers, "clusterId": "kQx3", "topics": response}


def _advertised() -> dict[str, Any]:
    return {"apiKeys": [{"apiKey": key, "maxVersion": 9} for key in range(60)]}


def _coordinators() -> dict[str, Any]:
    return {"coordinators": [{"key": _GROUP_ID, "host": "broker-1.internal", "port": 9092}]}
