"""Bench: frames to columns, compared with kio, the scalar reader and a loop over the fixed header.

All four read the same frames in one process on one core, in turns; the median counts. The columnar reader is
called as the query and `check` call it: it returns the head of each frame and the places of the fields that
rules ask for. kio's native reader makes objects of header and body. The loop sums the correlation IDs and
touches 8 bytes of each frame: the bound that memory sets.

The frames are a synthetic mix of those of a busy cluster: APIs, shares and sizes.
"""

from __future__ import annotations

import base64
import functools
import statistics
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, Final

import numba
import numpy as np
import numpy.typing as npt

from decoders.codec.columnar.frames import Frames
from decoders.codec.columnar.reader import ColumnarReader
from decoders.codec.request import read_request, write_request
from decoders.codec.response import read_response, write_response
from decoders.schema.registry import Schemas, default_schemas
from streaming.bench import in_turns, report
from streaming.user_error import UserError

FRAMES: Final = 1_000_000
ROUNDS: Final = 7
_BATCH: Final = 100_000
"""Frames in a batch, as many as Spark passes to the query at once."""
_SCALAR_SHARE: Final = 100
"""The scalar reader reads one frame in 100, or it would take most of the time."""
_LARGEST_FRAME: Final = 1 << 20
_GROWTH_BYTES: Final = 16 * _LARGEST_FRAME
_GROWTH_FRAMES: Final = 4096
"""What is read of each frame size at once, for a millisecond: bytes if each costs time, otherwise frames."""

RULE_FIELDS: Final = {
    "client_software_name": ["ApiVersionsRequest.clientSoftwareName"],
    "client_software_version": ["ApiVersionsRequest.clientSoftwareVersion"],
    "group_id": ["ConsumerGroupHeartbeatRequest.groupId"],
    "member_id": ["ConsumerGroupHeartbeatRequest.memberId", "ConsumerGroupHeartbeatResponse.memberId"],
    "member_epoch": ["ConsumerGroupHeartbeatRequest.memberEpoch"],
    "heartbeat_interval_ms": ["ConsumerGroupHeartbeatResponse.heartbeatIntervalMs"],
    "error_code": [
        "ApiVersionsResponse.errorCode",
        "ConsumerGroupHeartbeatResponse.errorCode",
        "HeartbeatResponse.errorCode",
    ],
}
_CLIENT_ID = "orders-service-consumer-1"
_MEMBER_ID = "8zQ4pXkCTt2cYd0sVhGm1A"
_GROUP_ID = "orders-service"
_TOPICS = ("orders", "payments", "shipments")
_TOPIC_ID = "vBxYyYy0QmO1n3Vd2mXkZQ"
_SOFTWARE = {"clientSoftwareName": "apache-kafka-java", "clientSoftwareVersion": "4.4.0"}


def measure(frames: int = FRAMES, rounds: int = ROUNDS) -> dict[str, Any]:
    """Measure, and report frames per second of each side and the ratios. Raises UserError without kio."""
    schemas = default_schemas()
    mix = mixed_frames(schemas, frames)
    # The first round warms up.
    seconds = in_turns(_sides(schemas, mix), rounds + 1)
    rates = {
        name: frames / (_SCALAR_SHARE if name == "scalar" else 1) / statistics.median(taken[1:])
        for name, taken in seconds.items()
    }
    figures = {f"{name}_frames_per_second": rate for name, rate in rates.items()}
    figures["bytes_per_frame"] = sum(map(len, mix.contents)) / frames
    ratios = {f"columnar_vs_{name}": rates["columnar"] / rates[name] for name in ("kio", "scalar", "limit")}
    # Older reports also measured a side with Arrow columns. Its keys stay, for comparison.
    figures["columnar_without_arrow_frames_per_second"] = rates["columnar"]
    ratios["columnar_without_arrow_vs_kio"] = ratios["columnar_vs_kio"]
    return report("decode", figures, ratios | _growth(schemas, rounds))


def _sides(schemas: Schemas, mix: MixedFrames) -> dict[str, Callable[[], object]]:
    batches, reader = mix.batches(_BATCH), ColumnarReader(schemas, RULE_FIELDS)
    few = range(0, len(mix.contents), _SCALAR_SHARE)
    return {
        "columnar": lambda: _exhaust(reader.read(batch) for batch in batches),
        "kio": _kio(mix),
        "scalar": lambda: _exhaust(_read_scalar(schemas, mix, number) for number in few),
        "limit": lambda: _exhaust(_sum_of_correlation_ids(batch.data, batch.begins) for batch in batches),
    }


def _exhaust(results: Iterable[object]) -> None:
    """Make each result and drop it."""
    deque(results, maxlen=0)


def _read_scalar(schemas: Schemas, mix: MixedFrames, number: int) -> object:
    if mix.is_request[number]:
        return read_request(schemas, mix.contents[number])
    return read_response(schemas, mix.contents[number], *mix.apis[number])


def _kio(mix: MixedFrames) -> Callable[[], object]:
    """Make kio's side: the readers of each API and version are found beforehand, as a program would."""
    if find_spec("kio") is None:
        raise UserError("bench decode needs kio: pip install kio")
    sides = list(zip(mix.is_request, mix.apis, strict=True))
    readers = {side: _kio_readers(*side) for side in set(sides)}
    known = [readers[side] for side in sides]

    def read() -> None:
        for content, (read_header, read_body) in zip(mix.contents, known, strict=True):
            _, size = read_header(content, 0)
            read_body(content, size)

    return read


def _kio_readers(is_request: bool, api: tuple[int, int]) -> tuple[Any, Any]:
    from kio.index import load_request_schema, load_response_schema  # noqa: PLC0415 - a peer, for benches alone
    from kio.serial import entity_reader  # noqa: PLC0415

    entity = (load_request_schema if is_request else load_response_schema)(*api)
    return entity_reader(entity.__header_schema__), entity_reader(entity)


@numba.njit  # type: ignore[untyped-decorator]
def _sum_of_correlation_ids(data: npt.NDArray[np.uint8], begins: npt.NDArray[np.int64]) -> int:
    total = 0
    for begin in begins:
        number = 0
        for at in range(8):
            number = (number << 8) | data[begin + at]
        total += number & 0xFFFFFFFF
    return total


def _growth(schemas: Schemas, rounds: int) -> dict[str, float]:
    """Return by what factor, at most, the cost of a frame grows when its size doubles."""
    reader = ColumnarReader(schemas, {"topics": ["MetadataRequest.topics.name"]})
    sizes = [_LARGEST_FRAME >> shift for shift in range(4, -1, -1)]
    of_elements, of_bytes = [_GROWTH_BYTES // size for size in sizes], [_GROWTH_FRAMES] * len(sizes)
    made = {
        "elements_passed_over": map(
            _repeated, [_large_delete_topics(schemas, size) for size in sizes], of_elements
        ),
        "elements_wanted": map(_repeated, [_large_metadata(schemas, size) for size in sizes], of_elements),
        "bytes_passed_over": map(_repeated, [_large_produce(schemas, size) for size in sizes], of_bytes),
    }
    return {f"growth_of_{name}": _steepest(reader, list(frames), rounds) for name, frames in made.items()}


def _steepest(reader: ColumnarReader, columns: list[Frames], rounds: int) -> float:
    sides = {str(number): functools.partial(reader.read, column) for number, column in enumerate(columns)}
    taken = in_turns(sides, rounds + 1)
    # The minimum is what the work itself costs: other programs only add to it.
    costs = [min(taken[str(number)][1:]) / len(column) for number, column in enumerate(columns)]
    return max(larger / smaller for smaller, larger in pairwise(costs))


def _repeated(frame: bytes, times: int) -> Frames:
    return Frames(
        data=np.frombuffer(frame, np.uint8),
        begins=np.zeros(times, np.int64),
        lengths=np.full(times, len(frame), np.int32),
        is_cut=np.zeros(times, np.bool_),
        is_request=np.ones(times, np.bool_),
        paired_keys=np.zeros(times, np.int16),
        paired_versions=np.zeros(times, np.int16),
    )


def _large_delete_topics(schemas: Schemas, size: int) -> bytes:
    body = {"topicNames": ["orders"] * (size // 8), "timeoutMs": 30_000}
    return write_request(schemas, "DeleteTopics", 3, 7, None, body)


def _large_metadata(schemas: Schemas, size: int) -> bytes:
    return write_request(schemas, "Metadata", 1, 7, None, {"topics": [{"name": "orders"}] * (size // 8)})


def _large_produce(schemas: Schemas, size: int) -> bytes:
    records = base64.b64encode(bytes(size)).decode()
    topics = [{"name": "orders", "partitionData": [{"records": records}]}]
    return write_request(schemas, "Produce", 9, 7, None, {"acks": 1, "topicData": topics})


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
