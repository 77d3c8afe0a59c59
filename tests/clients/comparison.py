"""Compares the requests of a capture with the request log of the broker that served them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from decoders.codec.request import read_request
from decoders.frame.record import Kind, Record
from decoders.schema.registry import default_schemas
from streaming.check.examination import records_of
from streaming.feeder.source import open_capture
from tests.streaming.broker.request_log import LoggedRequest

Said = tuple[str, int, int, int | None, str]
"""The client's address, API key, version, correlation ID and client ID of a request."""


class Comparison(NamedTuple):
    """How many requests both know, and those that only one of them does."""

    equal: int
    unseen: Counter[Said]
    """In the log and not in the capture."""
    unlogged: Counter[Said]
    """Responded to in the capture, and not in the log."""
    unanswered: int
    """Without a response: refused, acks=0, or sent just before the end."""


def compare(capture: Path, port: int, lines: Iterable[LoggedRequest]) -> Comparison:
    """Compare a capture of one port with the lines of the log since its beginning."""
    with open_capture(capture) as packets:
        read, _ = records_of(default_schemas(), packets, [port], run=1)
        records = list(read)
    logged: Counter[Said] = Counter(
        (_client(line), line.api_key, line.api_version, line.correlation_id, line.client_id) for line in lines
    )
    requests = [record for record in records if record.kind is Kind.REQUEST]
    responded = {record.paired_sequence for record in records if record.kind is Kind.RESPONSE}
    seen = _said(requests)
    with_response = [request for request in requests if request.sequence in responded]
    return Comparison(
        equal=(seen & logged).total(),
        unseen=logged - seen,
        unlogged=_said(with_response) - logged,
        unanswered=len(requests) - len(with_response),
    )


def _said(requests: Sequence[Record]) -> Counter[Said]:
    said: Counter[Said] = Counter()
    for record in requests:
        request = read_request(default_schemas(), record.frame, cut=record.is_cut)
        name = request.client_id or ""
        said[record.client, request.api_key, request.api_version, request.correlation_id, name] += 1
    return said


def _client(line: LoggedRequest) -> str:
    """`local:port-remote:port-processor-index`, as Kafka names a connection."""
    return line.connection.split("-")[1]
