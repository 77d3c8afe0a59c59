"""Counts the requests of clients: those that the broker has logged, and those that a feeder has published."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final, NamedTuple

from decoders.codec.request import read_request
from decoders.frame.record import Kind
from decoders.schema.registry import default_schemas
from streaming.audit.frames_topic import latest_slice
from tests.streaming.broker.request_log import logged_request

Call = tuple[str, int, str]
"""API, version, and client ID, "" for none."""
_EVERYTHING: Final = 10_000_000
"""More frames than any soak publishes."""


class LoggedRequests:
    """Counts the requests of a broker's log, of which it reads only what is new."""

    def __init__(self, log: Path) -> None:
        self._log, self._read_to = log, 0
        self._calls: Counter[Call] = Counter()
        self._names = default_schemas().api_names

    def calls(self) -> Counter[Call]:
        """Return the requests that the log holds now."""
        with self._log.open("rb") as log:
            log.seek(self._read_to)
            for line in iter(log.readline, b""):
                if not line.endswith(b"\n"):  # It is being written.
                    break
                self._read_to += len(line)
                request = logged_request(line.decode())
                self._calls[self._names[request.api_key], request.api_version, request.client_id] += 1
        return Counter(self._calls)


class PublishedRequests(NamedTuple):
    """The requests in a topic of frames, and those of them that have no response in it."""

    calls: Counter[Call]
    unanswered: Counter[Call]


def published_requests(bootstrap: str, topic: str) -> PublishedRequests:
    """Count the requests in a topic of frames, whose other records are skipped."""
    calls, schemas = dict[tuple[bytes, int], Call](), default_schemas()
    answered = set[tuple[bytes, int]]()
    for *_, record in latest_slice(bootstrap, topic, _EVERYTHING).frames:
        if record.kind is Kind.RESPONSE:
            answered.add((record.connection, record.paired_sequence))
        elif record.kind is Kind.REQUEST:
            request = read_request(schemas, record.frame, cut=record.is_cut)
            call = schemas.api_names[request.api_key], request.api_version, request.client_id or ""
            calls[record.connection, record.sequence] = call
    unanswered = (call for place, call in calls.items() if place not in answered)
    return PublishedRequests(Counter(calls.values()), Counter(unanswered))
