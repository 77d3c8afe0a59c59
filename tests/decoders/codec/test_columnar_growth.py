"""A frame that is twice as large takes at most a little more than twice the time, up to a megabyte.

The growth is that of the whole range, an eighth of a megabyte to a megabyte: a single doubling may be the one
that leaves a cache of the processor, and takes more.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from decoders.codec.columnar.frames import Frames
from decoders.codec.columnar.reader import ColumnarReader
from decoders.codec.request import write_request
from decoders.schema.registry import default_schemas

SCHEMAS = default_schemas()
LARGEST = 1 << 20
DOUBLINGS = 3
SIZES = [LARGEST >> shift for shift in range(DOUBLINGS, -1, -1)]
MOST = 2.2
"""Of a doubling, on average. Where costs grow with the square it is 4."""
READINGS = 15
ATTEMPTS = 6


def elements_passed_over(size: int) -> bytes:
    body = {"topicNames": ["orders"] * (size // 8), "timeoutMs": 30_000}
    return write_request(SCHEMAS, "DeleteTopics", 3, 7, None, body)


def elements_wanted(size: int) -> bytes:
    return write_request(SCHEMAS, "Metadata", 1, 7, None, {"topics": [{"name": "orders"}] * (size // 8)})


def bytes_passed_over(size: int) -> bytes:
    records = base64.b64encode(bytes(size)).decode()
    topics = [{"name": "orders", "partitionData": [{"records": records}]}]
    return write_request(SCHEMAS, "Produce", 9, 7, None, {"acks": 1, "topicData": topics})


def column(frame: bytes) -> Frames:
    """The frame as often as it fits into the largest one, so that all columns take equally long."""
    times = 2 * LARGEST // len(frame) + 1
    one, numbers = np.ones(times, np.bool_), np.zeros(times, np.int16)
    return Frames(
        data=np.frombuffer(frame, np.uint8),
        begins=np.zeros(times, np.int64),
        lengths=np.full(times, len(frame), np.int32),
        is_cut=~one,
        is_request=one,
        paired_keys=numbers,
        paired_versions=numbers,
    )


def best_costs(reader: ColumnarReader, columns: Mapping[int, Frames]) -> dict[int, float]:
    """The least processor time for a frame of each size, over several readings by turns."""
    best = dict.fromkeys(columns, float("inf"))
    for _ in range(READINGS):
        for size, frames in columns.items():
            begin = time.process_time()
            reader.read(frames)
            best[size] = min(best[size], (time.process_time() - begin) / len(frames))
    return best


@pytest.mark.parametrize("frame_of", [elements_passed_over, elements_wanted, bytes_passed_over])
def test_cost_grows_no_faster_than_the_frame(frame_of: Callable[[int], bytes]) -> None:
    """Other work on the machine only ever adds time, so the least of all attempts counts."""
    reader = ColumnarReader(SCHEMAS, {"topics": ["MetadataRequest.topics.name"]})
    columns = {size: column(frame_of(size)) for size in SIZES}
    best = dict.fromkeys(SIZES, float("inf"))
    for _ in range(ATTEMPTS):
        costs = best_costs(reader, columns)
        best = {size: min(best[size], costs[size]) for size in SIZES}
        growth = (best[LARGEST] / best[SIZES[0]]) ** (1 / DOUBLINGS)
        if growth <= MOST:
            return
    pytest.fail(f"twice the size takes {growth:.2f} times the time")
