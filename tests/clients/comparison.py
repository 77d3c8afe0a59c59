"""Compares the requests of a capture with the request log of the broker that served them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from decoders.codec.request import read_request
from decoders.frame.record import Kind, Record
from decoders.protocol import SASL_AUTHENTICATE, SASL_HANDSHAKE
from decoders.schema.registry import default_schemas
from streaming.check.examination import records_of
from streaming.feeder.key_log_files import read_key_logs
from streaming.feeder.source import open_capture
from tests.clients.bodies import ComparedBodies, compare_bodies
from tests.clients.securing import TLS, Watched
from tests.streaming.broker.request_log import LoggedRequest

Said = tuple[str, int, int, int | None, str]
"""The client's address, API key, version, correlation ID and client ID of a request."""
_LOGIN = (SASL_HANDSHAKE, SASL_AUTHENTICATE)


class Comparison(NamedTuple):
    """How many requests both know, and those that only one of them does."""

    equal: int
    unseen: Counter[Said]
    """In the log and not in the capture."""
    unlogged: Counter[Said]
    """Responded to in the capture, and not in the log."""
    bodies: ComparedBodies
    unanswered: int
    """Without a response: refused, acks=0, or sent just before the end."""


def compare(capture: Path, watched: Watched, lines: Sequence[LoggedRequest]) -> Comparison:
    """Compare a capture of one port with the lines of the log since its beginning."""
    key_log = read_key_logs(watched.key_logs) if watched.key_logs else None
    with open_capture(capture) as packets:
        records = list(records_of(default_schemas(), packets, [watched.port], run=1, key_log=key_log))
    logged: Counter[Said] = Counter(
        (line.client, line.api_key, line.api_version, line.correlation_id, line.client_id) for line in lines
    )
    requests = list(_logged_ones(record for record in records if record.kind is Kind.REQUEST))
    responded = {record.paired_sequence for record in records if record.kind is Kind.RESPONSE}
    with_response = [request for request in requests if request.sequence in responded]
    seen, seen_with_response = _said(requests), _said(with_response)
    if watched.security == TLS:
        # The broker knows the endpoint of TLS, and not who connects to it.
        logged, seen, seen_with_response = map(_nameless, (logged, seen, seen_with_response))
    return Comparison(
        equal=(seen & logged).total(),
        unseen=logged - seen,
        bodies=compare_bodies([] if watched.security == TLS else records, lines),
        unlogged=seen_with_response - logged,
        unanswered=len(requests) - len(with_response),
    )


def _logged_ones(requests: Iterable[Record]) -> Iterator[Record]:
    """Yield the requests of a broker's log: none up to the end of a login."""
    by_connection: dict[bytes, list[Record]] = {}
    for request in requests:
        by_connection.setdefault(request.connection, []).append(request)
    for on_connection in by_connection.values():
        keys = [
            read_request(default_schemas(), record.frame, cut=record.is_cut).api_key
            for record in on_connection
        ]
        login = max((place for place, key in enumerate(keys) if key in _LOGIN), default=-1)
        yield from on_connection[login + 1 :]


def _nameless(said: Counter[Said]) -> Counter[Said]:
    """Forget the clients' addresses."""
    nameless: Counter[Said] = Counter()
    for (_, key, version, correlation_id, client_id), count in said.items():
        nameless["", key, version, correlation_id, client_id] += count
    return nameless


def _said(requests: Sequence[Record]) -> Counter[Said]:
    said: Counter[Said] = Counter()
    for record in requests:
        request = read_request(default_schemas(), record.frame, cut=record.is_cut)
        name = request.client_id or ""
        said[record.client, request.api_key, request.api_version, request.correlation_id, name] += 1
    return said
