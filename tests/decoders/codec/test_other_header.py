"""A request on a header that is not its version's own is told, and only where that is certain."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.codec.other_header import other_header
from decoders.codec.program import compile_message
from decoders.codec.writer import write
from decoders.schema.registry import Api, default_schemas
from expectations.conversation.identifier import identifier_text

SCHEMAS = default_schemas()
RELEASED = [
    (api, version)
    for api in SCHEMAS.by_key.values()
    if api.release_versions
    for version in {api.release_versions.lowest, api.release_versions.highest}
]


def frame_on(api: Api, version: int, header_version: int, instance_id: bytes = bytes(range(16, 32))) -> bytes:
    """A request with its default body behind any header."""
    header = {"requestApiKey": api.key, "requestApiVersion": version, "correlationId": 1, "clientId": "app"}
    if header_version == 3:
        header["clientInstanceId"] = identifier_text(instance_id)
    written = write(compile_message(SCHEMAS.request_header, header_version), header)
    return written + write(compile_message(api.request, version), {})


@pytest.mark.parametrize(("api", "version"), RELEASED, ids=lambda part: getattr(part, "name", part))
def test_a_request_on_its_own_header_has_no_other(api: Api, version: int) -> None:
    frame = frame_on(api, version, api.request_header_version(version))
    assert other_header(SCHEMAS, api, version, frame) is None


@pytest.mark.parametrize(("api", "version"), RELEASED, ids=lambda part: getattr(part, "name", part))
def test_a_released_version_on_header_3_is_told_or_ambiguous(api: Api, version: int) -> None:
    assert other_header(SCHEMAS, api, version, frame_on(api, version, 3)) in (3, None)


@given(st.binary(min_size=16, max_size=16))
def test_metadata_13_on_header_3_is_told_whatever_the_id(instance_id: bytes) -> None:
    api = SCHEMAS.api_named("Metadata")
    assert api is not None
    assert other_header(SCHEMAS, api, 13, frame_on(api, 13, 3, instance_id)) in (3, None)
    assert other_header(SCHEMAS, api, 13, frame_on(api, 13, 3, b"\xff" * 16)) == 3


@given(st.binary(max_size=80))
def test_any_bytes_are_taken(frame: bytes) -> None:
    api = SCHEMAS.api_named("Metadata")
    assert api is not None
    assert other_header(SCHEMAS, api, 13, frame) in (1, 3, None)
