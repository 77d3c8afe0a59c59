"""A request on header 3 of each API that KIP-1313 bumps, and its response, spliced from Kafka's frames."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from decoders.codec.program import compile_message
from decoders.codec.request import read_request, write_request
from decoders.codec.response import read_response, write_response
from decoders.schema.header_versions import Layout
from decoders.schema.registry import Api, default_schemas
from tests.examples import share_of
from tests.oracle import splicing
from tests.oracle.comparison import printed
from tests.oracle.judge import JudgedMessage, Oracle, Pair

SCHEMAS = default_schemas()
SASL_HANDSHAKE, API_VERSIONS, OFFSET_DELETE, GET_TELEMETRY, PUSH_TELEMETRY = 17, 18, 47, 71, 72
OF_EACH = round(share_of(10))
SEED = 1313
Splice = Callable[[bytes, int, int, bytes], bytes]

Bumped = tuple[Api, int]
"""An API and the newest version that a release has of it: one below the spliced one."""
Made = tuple[JudgedMessage, Bumped, JudgedMessage]
"""A header, what it is for, and a body."""
BUMPED: list[Bumped] = [
    (api, api.release_versions.highest)
    for api in SCHEMAS.apis
    if api.release_versions and api.key != SASL_HANDSHAKE
]
LAYOUTS: dict[Layout, Splice] = {
    Layout.PLAIN: splicing.header_3,
    Layout.TAGGED: splicing.tagged_header_3,
}
REQUEST_BODY: dict[int, Callable[[bytes], bytes]] = {
    OFFSET_DELETE: splicing.flexible_offset_delete_request,
    GET_TELEMETRY: lambda body: splicing.without(body, 0),
    PUSH_TELEMETRY: lambda body: splicing.without(body, 0),
}
RESPONSE_BODY: dict[int, Callable[[bytes], bytes]] = {
    OFFSET_DELETE: splicing.flexible_offset_delete_response,
    # Behind throttle time and error code.
    GET_TELEMETRY: lambda body: splicing.without(body, 4 + 2),
}


def test_all_apis_but_sasl_handshake_are_bumped() -> None:
    assert len(BUMPED) == 90
    assert all(api.versions.highest == newest + 1 for api, newest in BUMPED)


@dataclass(frozen=True, slots=True)
class Spliced:
    """A request frame, what went into it, and whether its header has tagged fields beside the ID."""

    frame: bytes
    api: Api
    version: int
    instance_id: bytes
    header: dict[str, Any]
    body: dict[str, Any]
    has_other_tags: bool


@pytest.fixture(params=LAYOUTS, ids=str)
def layout(request: pytest.FixtureRequest) -> Layout:
    found: Layout = request.param
    return found


@pytest.fixture(scope="module")
def requests(oracle: Oracle) -> list[Made]:
    """What Kafka made for the requests in both layouts."""
    return list(made(oracle, Pair("RequestHeader", 2), "Request"))


def test_a_spliced_request_is_read_and_written(requests: list[Made], layout: Layout) -> None:
    """Tagged fields beside the ID are read over, so they are not written."""
    compared = 0
    for one in spliced(requests, layout):
        request = read_request(SCHEMAS, one.frame)
        assert (request.known, request.failure, request.remarks) == (True, None, ()), one.frame.hex()
        assert (request.api_key, request.api_version) == (one.api.key, one.version)
        assert (request.header_version, request.layout) == (3, layout)
        assert request.client_instance_id == one.instance_id
        assert request.client_id == one.header["clientId"]
        assert request.correlation_id == one.header["correlationId"]
        assert request.body is not None
        assert printed(compile_message(one.api.request, one.version), request.body) == one.body
        header = one.header["correlationId"], one.header["clientId"]
        written = write_request(
            SCHEMAS, one.api.key, one.version, *header, request.body, one.instance_id, layout
        )
        if not one.has_other_tags:
            assert written == one.frame
            compared += 1
    assert compared > OF_EACH * len(BUMPED) // 2


def test_a_spliced_response_is_read_and_written(oracle: Oracle) -> None:
    for header, (api, newest), body in made(oracle, Pair("ResponseHeader", 0), "Response"):
        content = RESPONSE_BODY.get(api.key, bytes)(body.verdict.written)
        is_on_header_0 = api.key == API_VERSIONS
        frame = header.data + (b"" if is_on_header_0 else splicing.NO_TAGS) + content
        response = read_response(SCHEMAS, frame, api.key, newest + 1)
        assert (response.known, response.failure, response.remarks) == (True, None, ()), frame.hex()
        assert (response.header_version, response.body_version) == (0 if is_on_header_0 else 1, newest + 1)
        assert response.body is not None
        number = json.loads(header.verdict.json or "")["correlationId"]
        assert response.correlation_id == number
        assert printed(compile_message(api.response, newest + 1), response.body) == expected(api, body)
        assert write_response(SCHEMAS, api.key, newest + 1, number, response.body) == frame


def spliced(requests: Iterable[Made], layout: Layout) -> Iterator[Spliced]:
    random, splice = Random(SEED), LAYOUTS[layout]
    for header, (api, newest), body in requests:
        instance_id = random.randbytes(16)
        content = REQUEST_BODY.get(api.key, bytes)(body.verdict.written)
        yield Spliced(
            frame=splice(header.verdict.written, api.key, newest + 1, instance_id) + content,
            api=api,
            version=newest + 1,
            instance_id=instance_id,
            header=json.loads(header.verdict.json or ""),
            body=expected(api, body),
            has_other_tags=layout is Layout.PLAIN and splicing.has_tags(header.verdict.written),
        )


def made(oracle: Oracle, header: Pair, kind: str) -> Iterator[Made]:
    """Let Kafka make a header and a body for each frame."""
    pairs = {Pair(f"{api.name}{kind}", newest): (api, newest) for api, newest in BUMPED}
    bodies = oracle.make(pairs, SEED, OF_EACH)
    headers = oracle.make([header], SEED, OF_EACH * len(pairs))
    for one, body in zip(headers, bodies, strict=True):
        yield one, pairs[body.pair], body


def expected(api: Api, body: JudgedMessage) -> dict[str, Any]:
    """Return Kafka's output for the version before, without the ID that the KIP removes."""
    value: dict[str, Any] = json.loads(body.verdict.json or "")
    if api.key in (GET_TELEMETRY, PUSH_TELEMETRY):
        value.pop("clientInstanceId", None)
    return value
