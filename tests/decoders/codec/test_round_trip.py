"""The reader reads what the writer writes, and it is written again as it was.

For every API and version, those of the overlay in both layouts.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from decoders.codec.program import compile_message
from decoders.codec.request import read_request, write_request
from decoders.codec.response import read_response, write_response
from decoders.schema.header_versions import Layout
from decoders.schema.registry import Api, default_schemas
from tests.decoders.codec.bodies import bodies
from tests.examples import examples

SCHEMAS = default_schemas()
APIS = [pytest.param(api, id=api.name) for api in SCHEMAS.apis if api.versions]
INSTANCE_ID = bytes(range(0x51, 0x61))
few_examples = examples(4, suppress_health_check=list(HealthCheck), database=None)


def versions(api: Api) -> range:
    return range(api.versions.lowest, api.versions.highest + 1)


@pytest.mark.parametrize("api", APIS)
@few_examples
@given(data=st.data(), client_id=st.none() | st.text(st.characters(codec="utf-8"), max_size=5))
def test_every_request_reads_as_it_was_written(api: Api, data: st.DataObject, client_id: str | None) -> None:
    for version in versions(api):
        body = data.draw(bodies(compile_message(api.request, version)))
        has_id = api.request_header_version(version) == 3
        header = (INSTANCE_ID, data.draw(st.sampled_from(Layout))) if has_id else (None, None)
        frame = write_request(SCHEMAS, api.key, version, 7, client_id, body, *header)
        request = read_request(SCHEMAS, frame)
        assert (request.known, request.failure, request.remarks) == (True, None, ())
        assert (request.correlation_id, request.client_id) == (7, client_id)
        assert (request.client_instance_id, request.layout) == header
        assert request.body == body
        assert write_request(SCHEMAS, api.key, version, 7, client_id, request.body, *header) == frame


@pytest.mark.parametrize("api", APIS)
@few_examples
@given(data=st.data())
def test_every_response_reads_as_it_was_written(api: Api, data: st.DataObject) -> None:
    for version in versions(api):
        body = data.draw(bodies(compile_message(api.response, version)))
        frame = write_response(SCHEMAS, api.key, version, 7, body)
        response = read_response(SCHEMAS, frame, api.key, version)
        assert (response.known, response.failure, response.remarks) == (True, None, ())
        assert (response.correlation_id, response.body_version) == (7, version)
        assert response.body == body
        assert write_response(SCHEMAS, api.key, version, 7, response.body) == frame


@pytest.mark.parametrize("api", APIS)
def test_a_body_left_out_is_one_of_defaults(api: Api) -> None:
    for version in versions(api):
        frame = write_response(SCHEMAS, api.key, version, 7, {})
        response = read_response(SCHEMAS, frame, api.key, version)
        assert write_response(SCHEMAS, api.key, version, 7, response.body or {}) == frame
