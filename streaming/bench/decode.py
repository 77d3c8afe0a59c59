"""Measures how fast frames are decoded: beside kio, the scalar reader and a loop over the fixed header.

All four read the same frames in one process on one core, in turns; the median counts. The columnar reader
is called as the query and `check` call it: it returns the head of each frame and the places of the fields
that rules ask for. kio's native reader makes objects of header and body. The loop sums the correlation
IDs and touches 8 bytes of each frame: the bound that memory sets.
"""

from __future__ import annotations

import base64
import functools
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, Final

import numba
import numpy as np
import numpy.typing as npt

from decoders.codec.columnar.frames import Frames
from decoders.codec.columnar.reader import ColumnarReader
from decoders.codec.request import read_request, write_request
from decoders.codec.response import read_response
from decoders.schema.registry import Schemas, default_schemas
from streaming.bench.frame_mix import MixedFrames, mixed_frames
from streaming.bench.report import report
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
"""What is read of each size at once, enough for a millisecond: bytes if each costs time, else frames."""

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


def measure(frames: int = FRAMES, rounds: int = ROUNDS) -> dict[str, Any]:
    """Measure, and report frames per second of each side and the ratios. Raises UserError without kio."""
    schemas = default_schemas()
    mix = mixed_frames(schemas, frames)
    seconds = _in_turns(_sides(schemas, mix), rounds)
    rates = {
        name: frames / (_SCALAR_SHARE if name == "scalar" else 1) / statistics.median(taken)
        for name, taken in seconds.items()
    }
    figures = {f"{name}_frames_per_second": rate for name, rate in rates.items()}
    figures["bytes_per_frame"] = sum(map(len, mix.contents)) / frames
    ratios = {f"columnar_vs_{name}": rates["columnar"] / rates[name] for name in ("kio", "scalar", "limit")}
    # Earlier reports measured Arrow columns as well. There are none any more, and the keys stay.
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


def _in_turns(sides: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Run all sides in turns, once to warm up; return the seconds of processor time of each run."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds + 1):
        for name, run in sides.items():
            begin = time.process_time()
            run()
            seconds[name].append(time.process_time() - begin)
    return {name: taken[1:] for name, taken in seconds.items()}


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
            _repeated, [_delete_topics(schemas, size) for size in sizes], of_elements
        ),
        "elements_wanted": map(_repeated, [_metadata(schemas, size) for size in sizes], of_elements),
        "bytes_passed_over": map(_repeated, [_produce(schemas, size) for size in sizes], of_bytes),
    }
    return {f"growth_of_{name}": _steepest(reader, list(frames), rounds) for name, frames in made.items()}


def _steepest(reader: ColumnarReader, columns: list[Frames], rounds: int) -> float:
    sides = {str(number): functools.partial(reader.read, column) for number, column in enumerate(columns)}
    taken = _in_turns(sides, rounds)
    # The minimum is what the work itself costs: other programs only add to it.
    costs = [min(taken[str(number)]) / len(column) for number, column in enumerate(columns)]
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


def _delete_topics(schemas: Schemas, size: int) -> bytes:
    body = {"topicNames": ["orders"] * (size // 8), "timeoutMs": 30_000}
    return write_request(schemas, "DeleteTopics", 3, 7, None, body)


def _metadata(schemas: Schemas, size: int) -> bytes:
    return write_request(schemas, "Metadata", 1, 7, None, {"topics": [{"name": "orders"}] * (size // 8)})


def _produce(schemas: Schemas, size: int) -> bytes:
    records = base64.b64encode(bytes(size)).decode()
    topics = [{"name": "orders", "partitionData": [{"records": records}]}]
    return write_request(schemas, "Produce", 9, 7, None, {"acks": 1, "topicData": topics})
