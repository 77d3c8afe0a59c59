"""The reader reads what the writer writes, for every API and version, those of the overlay included."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from decoders.codec.program import compile_message
from decoders.codec.request import read_request, write_request
from decoders.codec.response import read_response, write_response
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
        instance_id = INSTANCE_ID if api.request_header_version(version) == 3 else None
        frame = write_request(SCHEMAS, api.key, version, 7, client_id, body, instance_id)
        request = read_request(SCHEMAS, frame)
        assert request.failure is None
        assert (request.known, request.remarks) == (True, ())
        assert (request.client_id, request.client_instance_id) == (client_id, instance_id)
        assert request.body == body


@pytest.mark.parametrize("api", APIS)
@few_examples
@given(data=st.data())
def test_every_response_reads_as_it_was_written(api: Api, data: st.DataObject) -> None:
    for version in versions(api):
        body = data.draw(bodies(compile_message(api.response, version)))
        frame = write_response(SCHEMAS, api.key, version, 7, body)
        response = read_response(SCHEMAS, frame, api.key, version)
        assert response.failure is None
        assert (response.known, response.remarks, response.correlation_id) == (True, (), 7)
        assert response.body == body


@pytest.mark.parametrize("api", APIS)
def test_a_body_left_out_is_one_of_defaults(api: Api) -> None:
    for version in versions(api):
        frame = write_response(SCHEMAS, api.key, version, 7, {})
        response = read_response(SCHEMAS, frame, api.key, version)
        assert write_response(SCHEMAS, api.key, version, 7, response.body or {}) == frame
