"""A synthetic capture of clients that break no rule, for the bench of `check` and the soak.

A third of the connections produce, a third fetch, a third belong to members of groups. Frames are small, and
of versions that tshark knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from streaming.bench.wire_capture import Exchange, SyntheticCapture, exchange

CONNECTIONS: Final = 300
PER_WORK: Final = CONNECTIONS // 3


def write_capture(path: Path, frames: int) -> int:
    """Write a capture of at least `frames` frames, and return their number."""
    streams = [
        SyntheticCapture(PER_WORK, work(), first=number * PER_WORK).blocks()
        for number, work in enumerate(WORKS)
    ]
    # Each begins with a file header, of which one is needed.
    header, *_ = [next(stream) for stream in streams]
    written = 0
    with path.open("wb") as file:
        file.write(header)
        while written < frames:
            for stream in streams:
                file.write(next(stream))
                written += 2 * PER_WORK
    return written


def _producing() -> Iterator[Exchange]:
    for size in (90, 150, 300):
        data = [{"index": 0, "records": "QUJD" * (size // 3)}]
        request = {"acks": -1, "timeoutMs": 1000, "topicData": [{"name": "orders", "partitionData": data}]}
        stored = [{"name": "orders", "partitionResponses": [{"index": 0, "baseOffset": 1}]}]
        yield exchange("Produce", 9, request, {"responses": stored})


def _fetching() -> Iterator[Exchange]:
    for size in (0, 150, 0, 300):
        wanted = [{"partition": 0, "fetchOffset": 1, "partitionMaxBytes": 1 << 20}]
        found = [{"partitionIndex": 0, "highWatermark": 1, "records": "QUJD" * (size // 3)}]
        request = {"maxWaitMs": 500, "minBytes": 1, "topics": [{"topic": "orders", "partitions": wanted}]}
        yield exchange("Fetch", 11, request, {"responses": [{"topic": "orders", "partitions": found}]})


def _belonging_to_groups() -> Iterator[Exchange]:
    member = {"groupId": "group", "memberId": "member"}
    for _ in range(3):
        yield exchange("Heartbeat", 4, {**member, "generationId": 1}, {})
    committed = [{"name": "orders", "partitions": [{"partitionIndex": 0, "committedOffset": 1}]}]
    yield exchange("OffsetCommit", 8, {**member, "topics": committed}, {})


WORKS: Final = (_producing, _fetching, _belonging_to_groups)
