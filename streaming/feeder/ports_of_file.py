"""Which ports of a capture file carry Kafka, whatever ports are watched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from decoders.frame.record import Kind, Record
from decoders.schema.registry import Schemas
from decoders.wire.columnar.tracker import ColumnarTracker
from streaming.feeder.source import open_capture

_NAMED = 5
"""Ports that the message names, those with the most requests."""


def nothing_published(path: Path, watched: Iterable[int], schemas: Schemas) -> str:
    """Say in one line why a file without data on the watched ports yields nothing, and what to do."""
    named = ", ".join(map(str, watched))
    packets, found = _ports(path, schemas)
    if not packets:
        return f"{path} is empty: it holds no packet"
    if not found:
        return f"nothing was published: {path} holds no data on port {named}, and Kafka on no other port"
    ports = [port for port, _ in found.most_common(_NAMED)]
    return (
        f"nothing was published: {path} holds no data on port {named}; it has Kafka on port "
        f"{', '.join(map(str, ports))}: use --ports {','.join(map(str, ports))}"
    )


def _ports(path: Path, schemas: Schemas) -> tuple[int, Counter[int]]:
    """Return the number of packets, and the requests by port."""
    tracker, packets, requests = ColumnarTracker(schemas, ports=(), run=0), 0, Counter[int]()
    with open_capture(path) as capture:
        for batch in capture.batches():
            packets += batch.size
            requests.update(_requests(tracker.feed(batch).records()))
    requests.update(_requests(tracker.finish().records()))
    return packets, requests


def _requests(records: Iterable[Record]) -> list[int]:
    return [int(record.server.rpartition(":")[2]) for record in records if record.kind is Kind.REQUEST]
