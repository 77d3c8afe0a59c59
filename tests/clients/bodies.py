"""Compares bodies that we decode with those in the broker's request log, field by field.

The log has the request and the response as Kafka's own classes print them, with the size of records only.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from decoders.codec.program import compile_message
from decoders.codec.request import read_request
from decoders.codec.response import read_response
from decoders.frame.record import Kind, Record
from decoders.protocol import API_VERSIONS
from decoders.schema.registry import default_schemas
from tests.oracle.comparison import printed
from tests.streaming.broker.request_log import LoggedRequest

SHARE_FETCH, STREAMS_GROUP_HEARTBEAT = 78, 88
_RECORDS = ("records", "recordsSizeInBytes")
"""The broker logs the records of ShareFetch as "", and those of other APIs by their size."""
_RENAMED = {"acceptableRecoveryLagLegacy": "acceptableRecoveryLag"}
"""Kafka 4.4 gave the field of version 0 another name."""
Exchange = tuple[str, int, int, int]
"""The client's address, API key, version and correlation ID."""


class ComparedBodies(NamedTuple):
    """How many bodies of each kind are equal, and which are not, a line each."""

    requests: int
    responses: int
    other: list[str]


def compare_bodies(records: Sequence[Record], lines: Iterable[LoggedRequest]) -> ComparedBodies:
    """Compare what was captured with the log. What only one of them has is not counted here."""
    captured = _exchanges(records)
    equal, other = [0, 0], list[str]()
    for line in lines:
        exchange = (line.client, line.api_key, line.api_version, line.correlation_id)
        pair = captured[exchange].popleft() if captured[exchange] else (None, None)
        for place, logged in enumerate((line.request, line.response)):
            found = pair[place]
            if found is None or logged is None or _is_not_read(line, logged):
                continue
            ours = _printed(found, line)
            is_equal = _comparable(line, ours) == _comparable(line, logged)
            equal[place] += is_equal
            if not is_equal:
                other.append(f"API {line.api_key} v{line.api_version}: we read {ours}, the broker {logged}")
    return ComparedBodies(equal[0], equal[1], other)


def _exchanges(records: Sequence[Record]) -> dict[Exchange, deque[tuple[Record, Record | None]]]:
    """Requests with their responses, in their order: a later connection may reuse an earlier port."""
    responses = {record.paired_sequence: record for record in records if record.kind is Kind.RESPONSE}
    captured: dict[Exchange, deque[tuple[Record, Record | None]]] = defaultdict(deque)
    for record in records:
        if record.kind is Kind.REQUEST:
            request = read_request(default_schemas(), record.frame, cut=record.is_cut)
            exchange = (record.client, request.api_key, request.api_version, request.correlation_id or 0)
            captured[exchange].append((record, responses.get(record.sequence)))
    return captured


def _is_not_read(line: LoggedRequest, logged: dict[str, Any]) -> bool:
    """Whether the broker did not read the body: it knows no such version of ApiVersions."""
    return line.api_key == API_VERSIONS and logged == {}


def _comparable(line: LoggedRequest, body: Any) -> Any:
    """A body as it is, but for two differences of names: the records of ShareFetch, and a renamed field."""
    if line.api_key not in (SHARE_FETCH, STREAMS_GROUP_HEARTBEAT):
        return body
    if isinstance(body, list):
        return [_comparable(line, each) for each in body]
    if isinstance(body, dict):
        kept = ((name, value) for name, value in body.items() if name not in _RECORDS)
        return {_RENAMED.get(name, name): _comparable(line, value) for name, value in kept}
    return body


def _printed(record: Record, line: LoggedRequest) -> dict[str, Any] | None:
    """A captured body as Kafka prints it, None if it was not read whole."""
    schemas = default_schemas()
    if record.kind is Kind.REQUEST:
        request = read_request(schemas, record.frame, cut=record.is_cut)
        if request.api is None or request.body is None:
            return None
        return printed(compile_message(request.api.request, line.api_version), request.body)
    response = read_response(schemas, record.frame, line.api_key, line.api_version, cut=record.is_cut)
    if response.api is None or response.body is None or response.body_version is None:
        return None
    return printed(compile_message(response.api.response, response.body_version), response.body)
