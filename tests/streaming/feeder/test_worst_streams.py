"""A feeder stays below the memory that its unit allows, whatever strangers send while Kafka is away."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import pytest

from decoders.wire.eviction import MAX_CONNECTIONS
from streaming.demo.progress import scrape
from streaming.demo.road import Child
from streaming.settings.configuration import Configuration
from tests.e2e.pages import free_pages
from tests.e2e.process_tree import tree
from tests.repository.tree import ROOT
from tests.streaming.feeder import worst_streams

READY: Final = 90.0
SETTLED: Final = 3.0
"""Seconds after which the feeder has processed what was written: no more than a pipe and a chunk of it."""
UNIT: Final = ROOT / "deploy/systemd/kipwatch-feeder.service"
CHART: Final = ROOT / "deploy/helm/kipwatch/values.yaml"
STREAMS: Final = {
    "idle connections": (worst_streams.idle, MAX_CONNECTIONS, 1_000),
    "beginnings of frames": (worst_streams.unfinished(5_000, 1_448), MAX_CONNECTIONS, 1_000),
    "beginnings of frames, byte by byte": (worst_streams.unfinished(40, 1), MAX_CONNECTIONS, 10_000),
    "long frames, never completed": (worst_streams.unfinished(1_000_000, 50_000), 600, 100),
    "requests without responses": (worst_streams.in_flight, 20_000, 1_000),
    "bytes behind holes": (worst_streams.with_holes, 10_000, 10_000),
}

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


def allowed_mebibytes() -> int:
    """The limit of the unit without the rings of interfaces, which do not count in the process."""
    (limit,) = re.findall(r"^MemoryMax=(\d+)M$", UNIT.read_text(), re.M)
    assert f"limits: {{memory: {int(limit) // 1024}Gi}}" in CHART.read_text()
    return int(limit) - Configuration().ring_mebibytes


@contextmanager
def feeder(folder: Path) -> Iterator[tuple[Child, BinaryIO, str]]:
    """Run a feeder without Kafka. Yields it, its standard input, and the address of its page."""
    nowhere, page = free_pages(2)
    outlet, inlet = os.pipe()
    feed = ["feed", "-", "--bootstrap", nowhere, "--feeder-metrics-address", page]
    with os.fdopen(outlet, "rb") as source:
        child = Child(feed, folder / "feed.log", source)
    with child, os.fdopen(inlet, "wb") as pipe:
        child.wait_for('"ready"', READY)
        yield child, pipe, page


def highest_mebibytes(child: Child) -> float:
    """Return the highest resident memory of any process below a child's guard."""
    found = [Path(f"/proc/{process}/status").read_text() for process in tree(child.process_id)]
    return max(int(re.findall(r"^VmHWM:\s+(\d+) kB$", status, re.M)[0]) for status in found) / 1024


def await_full_queue(page: str) -> None:
    """Wait until the queue is as full as it gets before records are shed."""
    full, deadline = 0.75 * Configuration().queue_mebibytes * 2**20, time.monotonic() + READY
    while True:
        metrics = scrape(page)
        if metrics is not None and metrics.total("kipwatch_feed_waiting_bytes") > full:
            return
        assert time.monotonic() < deadline
        time.sleep(0.5)


@pytest.mark.parametrize("name", STREAMS)
def test_no_stream_takes_more_than_the_unit_allows(name: str, tmp_path: Path) -> None:
    stream, connections, mixed = STREAMS[name]
    with feeder(tmp_path) as (child, pipe, page):
        for block in worst_streams.many(worst_streams.complete, 24_000, 0):
            pipe.write(block)
        pipe.flush()
        await_full_queue(page)
        before = highest_mebibytes(child)
        blocks = worst_streams.many(stream, connections, 100_000, mixed)
        next(blocks)
        for block in blocks:
            pipe.write(block)
        pipe.flush()
        time.sleep(SETTLED)
        child.check_running()
        highest = highest_mebibytes(child)
    print(f"{name}: {before:.0f} MiB with a full queue, {highest:.0f} MiB at most")
    assert highest < allowed_mebibytes()
