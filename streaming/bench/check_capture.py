"""A capture beside a broker whose clients each do their own work, with no offence in it.

A third of the connections produce, a third fetch, a third belong to members of groups: small frames,
as most are. All in versions that tshark knows too.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from streaming.bench.wire_capture import Exchange, SyntheticCapture, exchange

CONNECTIONS: Final = 300
PER_WORK: Final = CONNECTIONS // 3


def write_capture(path: Path, frames: int) -> int:
    """Write a capture of at least so many frames, and tell how many there are."""
    streams = [
        SyntheticCapture(PER_WORK, work(), first=number * PER_WORK).blocks()
        for number, work in enumerate(WORKS)
    ]
    # Each has a file header, of which one is needed.
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
        asked = {"acks": -1, "timeoutMs": 1000, "topicData": [{"name": "orders", "partitionData": data}]}
        stored = [{"name": "orders", "partitionResponses": [{"index": 0, "baseOffset": 1}]}]
        yield exchange("Produce", 9, asked, {"responses": stored})


def _fetching() -> Iterator[Exchange]:
    for size in (0, 150, 0, 300):
        wanted = [{"partition": 0, "fetchOffset": 1, "partitionMaxBytes": 1 << 20}]
        told = [{"partitionIndex": 0, "highWatermark": 1, "records": "QUJD" * (size // 3)}]
        asked = {"maxWaitMs": 500, "minBytes": 1, "topics": [{"topic": "orders", "partitions": wanted}]}
        yield exchange("Fetch", 11, asked, {"responses": [{"topic": "orders", "partitions": told}]})


def _belonging() -> Iterator[Exchange]:
    member = {"groupId": "group", "memberId": "member"}
    for _ in range(3):
        yield exchange("Heartbeat", 4, {**member, "generationId": 1}, {})
    committed = [{"name": "orders", "partitions": [{"partitionIndex": 0, "committedOffset": 1}]}]
    yield exchange("OffsetCommit", 8, {**member, "topics": committed}, {})


WORKS: Final = (_producing, _fetching, _belonging)
