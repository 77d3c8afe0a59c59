"""The header of a request: header 3 of the overlay and of a release, and headers other than the assigned one.

Frames on header 3 are made by hand from frames on header 2, and so are those that only look like them.
"""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.codec.failure import EncodeError
from decoders.codec.program import compile_message
from decoders.codec.request import ZERO_INSTANCE_ID, Request, other_header, read_request, write_request
from decoders.codec.response import read_response, write_response
from decoders.codec.writer import write
from decoders.schema.header_versions import Layout
from decoders.schema.overlay import KIP_1313
from decoders.schema.registry import Api, Schemas, default_schemas
from decoders.schema.table import COMMITTED_TABLE, read_table
from expectations.conversation.texts import identifier_text
from tests.oracle import splicing

SCHEMAS = default_schemas()
INSTANCE_ID = bytes.fromhex("8f3d2c1b0a99887766554433221100ee")
ZERO_ID = bytes(16)
BODY = {"topics": [{"name": "orders"}]}
RELEASED = [
    (api, version)
    for api in SCHEMAS.by_key.values()
    if api.release_versions
    for version in {api.release_versions.lowest, api.release_versions.highest}
]


def spliced(frame: bytes, instance_id: bytes) -> bytes:
    """Turn a frame on header 2 into one of the next version on header 3."""
    key, version = struct.unpack_from(">hh", frame)
    return splicing.header_3(frame, key, version + 1, instance_id)


def tagged(frame: bytes, instance_id: bytes) -> bytes:
    """Turn a frame on header 2 into one of the next version on header 3 with the ID in tag 0."""
    key, version = struct.unpack_from(">hh", frame)
    body = frame[splicing.end_of_client_id(frame) + len(splicing.NO_TAGS) :]
    return splicing.tagged_header_3(frame, key, version + 1, instance_id) + body


def metadata(client_id: str | None = "cid") -> bytes:
    return write_request(SCHEMAS, "Metadata", 13, 7, client_id, {"topics": [{"name": "orders"}]})


def is_unknown(request: Request) -> bool:
    """Check that only the fields of every header are returned, and no failure."""
    assert (request.header_version, request.client_id, request.client_instance_id) == (None, None, None)
    assert (request.body, request.failure, request.remarks) == (None, None, ())
    assert request.correlation_id == 7
    return not request.known


@pytest.mark.parametrize("client_id", ["cid", "", None])
@pytest.mark.parametrize("instance_id", [INSTANCE_ID, ZERO_ID])
def test_a_spliced_frame_is_on_header_3(client_id: str | None, instance_id: bytes) -> None:
    before = read_request(SCHEMAS, metadata(client_id))
    request = read_request(SCHEMAS, spliced(metadata(client_id), instance_id))
    assert (request.known, request.failure, request.header_version) == (True, None, 3)
    assert (request.client_id, request.client_instance_id) == (client_id, instance_id)
    assert (request.api_version, request.body, request.layout) == (14, before.body, Layout.PLAIN)
    assert before.layout is None


def test_the_writer_makes_the_same_bytes() -> None:
    body = {"topics": [{"name": "orders"}]}
    written = write_request(SCHEMAS, "Metadata", 14, 7, "cid", body, INSTANCE_ID)
    assert written == spliced(metadata(), INSTANCE_ID)


def test_offset_delete_goes_from_header_1_to_header_3() -> None:
    body = {"groupId": "g", "topics": [{"name": "t", "partitions": [{"partitionIndex": 5}]}]}
    old = bytes.fromhex("002f 0000 00000007 ffff 0001 67 00000001 0001 74 00000001 00000005")
    new = bytes.fromhex("002f 0001 00000007 ffff") + INSTANCE_ID
    new += bytes.fromhex("00 02 67 02 02 74 02 00000005 00 00 00")
    for frame, header_version in ((old, 1), (new, 3)):
        request = read_request(SCHEMAS, frame)
        assert (request.header_version, request.body) == (header_version, body)
    answer = bytes.fromhex("00000007 00 0000 00000000 02 02 74 02 00000005 0000 00 00 00")
    response = read_response(SCHEMAS, answer, 47, 1)
    assert response.header_version == 1
    assert response.body is not None
    assert response.body["topics"] == [{"name": "t", "partitions": [{"partitionIndex": 5, "errorCode": 0}]}]


def test_telemetry_carries_the_instance_id_in_the_header_alone() -> None:
    get = bytes.fromhex("0047 0001 00000007 ffff") + INSTANCE_ID + bytes.fromhex("00 00")
    push = (
        bytes.fromhex("0048 0001 00000007 ffff") + INSTANCE_ID + bytes.fromhex("00 00000009 01 00 02 ff 00")
    )
    assert read_request(SCHEMAS, get).body == {}
    assert read_request(SCHEMAS, push).body == {
        "subscriptionId": 9,
        "terminating": True,
        "compressionType": 0,
        "metrics": "/w==",
    }
    answer = write_response(SCHEMAS, "GetTelemetrySubscriptions", 1, 7, {"subscriptionId": 9})
    response = read_response(SCHEMAS, answer, 71, 1)
    assert response.body is not None
    assert "clientInstanceId" not in response.body


def test_a_response_to_api_versions_with_header_3_has_header_0() -> None:
    response = read_response(SCHEMAS, bytes.fromhex("00000007 0000 01 00000000 00"), 18, 6)
    assert (response.known, response.header_version, response.body_version) == (True, 0, 6)


def test_a_frame_that_also_reads_as_header_2_is_not_known() -> None:
    # The zero ID of GetTelemetrySubscriptions v1 could as well be the tags and the body ID of a v0.
    frame = bytes.fromhex("0047 0001 00000007 ffff") + ZERO_ID + bytes.fromhex("00 00")
    assert is_unknown(read_request(SCHEMAS, frame))


def test_the_next_version_on_header_2_is_not_known() -> None:
    frame = bytearray(metadata())
    frame[3] = 14
    assert is_unknown(read_request(SCHEMAS, bytes(frame)))


def test_a_frame_on_header_3_with_a_byte_too_many_or_too_few_is_not_known() -> None:
    frame = spliced(metadata(), INSTANCE_ID)
    assert is_unknown(read_request(SCHEMAS, frame + b"\0"))
    assert is_unknown(read_request(SCHEMAS, frame[:-1]))


def test_a_version_beyond_the_overlay_is_not_known() -> None:
    frame = bytearray(spliced(metadata(), INSTANCE_ID))
    frame[3] = 15
    assert is_unknown(read_request(SCHEMAS, bytes(frame)))


def test_an_overlay_response_that_does_not_decode_has_no_failure() -> None:
    response = read_response(SCHEMAS, bytes.fromhex("00000007 00 ffff"), 3, 14)
    assert (response.known, response.failure, response.correlation_id) == (False, None, 7)


@pytest.mark.parametrize("client_id", ["cid", "", None])
def test_the_tagged_layout_is_seen(client_id: str | None) -> None:
    before = read_request(SCHEMAS, metadata(client_id))
    frame = tagged(metadata(client_id), INSTANCE_ID)
    request = read_request(SCHEMAS, frame)
    assert (request.known, request.failure, request.header_version) == (True, None, 3)
    assert (request.client_id, request.client_instance_id) == (client_id, INSTANCE_ID)
    assert (request.body, request.layout, request.remarks) == (before.body, Layout.TAGGED, ())
    body = {"topics": [{"name": "orders"}]}
    assert write_request(SCHEMAS, "Metadata", 14, 7, client_id, body, INSTANCE_ID, Layout.TAGGED) == frame


def test_every_bumped_api_is_read_in_both_layouts() -> None:
    for api in SCHEMAS.apis:
        version = api.versions.highest
        if api.is_overlay(version):
            for layout in Layout:
                frame = write_request(SCHEMAS, api.key, version, 7, "c", {}, INSTANCE_ID, layout)
                request = read_request(SCHEMAS, frame)
                assert (request.layout, request.client_instance_id) == (layout, INSTANCE_ID), api.name


def test_a_zero_id_in_the_tagged_layout_is_not_written_and_proves_nothing() -> None:
    frame = write_request(SCHEMAS, "Metadata", 14, 7, "cid", {}, ZERO_ID, Layout.TAGGED)
    assert is_unknown(read_request(SCHEMAS, frame))
    assert is_unknown(read_request(SCHEMAS, tagged(metadata(), ZERO_ID)))


TAG = b"\x01\x00\x10" + INSTANCE_ID


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(b"\x01\x01\x10" + INSTANCE_ID, id="another tag"),
        pytest.param(b"\x01\x00\x11" + INSTANCE_ID, id="another size"),
        pytest.param(b"\x02\x00\x10" + INSTANCE_ID + b"\x01\x00", id="a tag beside it"),
        pytest.param(b"\x02\x00\x10" + INSTANCE_ID + b"\x00\x10" + INSTANCE_ID, id="the tag twice"),
        pytest.param(b"\x81\x00\x00\x10" + INSTANCE_ID, id="an overlong count"),
    ],
)
def test_a_header_with_other_tags_proves_no_layout(other: bytes) -> None:
    frame = tagged(metadata(), INSTANCE_ID)
    assert TAG in frame
    assert is_unknown(read_request(SCHEMAS, frame.replace(TAG, other)))


def test_the_tagged_layout_is_not_sought_in_versions_that_were_released() -> None:
    frame = bytearray(tagged(metadata(), INSTANCE_ID))
    frame[3] = 13
    request = read_request(SCHEMAS, bytes(frame))
    assert (request.header_version, request.layout, request.client_instance_id) == (2, None, None)


def test_a_tagged_frame_with_a_byte_too_many_or_too_few_is_not_known() -> None:
    frame = tagged(metadata(), INSTANCE_ID)
    assert is_unknown(read_request(SCHEMAS, frame + b"\0"))
    assert is_unknown(read_request(SCHEMAS, frame[:-1]))


def test_a_frame_that_reads_in_both_layouts_is_not_known() -> None:
    """In this SaslAuthenticate, the plain layout reads the tag as an ID, and a byte of the ID as a length."""
    instance_id = bytes([9] * 13 + [0, 7, 9])
    frame = write_request(SCHEMAS, 36, 3, 7, None, {"authBytes": "AQIDBA=="}, instance_id, Layout.TAGGED)
    assert is_unknown(read_request(SCHEMAS, frame))
    otherwise = bytes([9] * 16)
    frame = write_request(SCHEMAS, 36, 3, 7, None, {"authBytes": "AQIDBA=="}, otherwise, Layout.TAGGED)
    assert read_request(SCHEMAS, frame).layout is Layout.TAGGED


def release(layout: Layout) -> Schemas:
    """A release that states the versions of the overlay itself, with its header in a layout."""
    return Schemas.of(KIP_1313.laid_over(read_table(COMMITTED_TABLE), layout))


@pytest.fixture(scope="module", params=list(Layout))
def schemas(request: pytest.FixtureRequest) -> Schemas:
    return release(request.param)


def test_the_layout_is_the_one_of_the_release(schemas: Schemas) -> None:
    (layout,) = schemas.request_headers
    frame = write_request(schemas, "Metadata", 14, 7, "cid", BODY, INSTANCE_ID)
    request = read_request(schemas, frame)
    assert (request.layout, request.client_instance_id, request.header_version) == (layout, INSTANCE_ID, 3)
    assert write_request(schemas, "Metadata", 14, 7, "cid", BODY, INSTANCE_ID, layout) == frame


def test_an_id_of_zero_is_known_in_either_layout(schemas: Schemas) -> None:
    frame = write_request(schemas, "Metadata", 14, 7, "cid", BODY, ZERO_INSTANCE_ID)
    assert read_request(schemas, frame).client_instance_id == ZERO_INSTANCE_ID


def test_a_frame_that_does_not_decode_fails(schemas: Schemas) -> None:
    frame = write_request(schemas, "Metadata", 14, 7, "cid", BODY, INSTANCE_ID)
    request = read_request(schemas, frame[:-1])
    assert (request.known, request.failure is None) == (True, False)


def test_no_other_layout_can_be_written(schemas: Schemas) -> None:
    (layout,) = schemas.request_headers
    (other,) = set(Layout) - {layout}
    with pytest.raises(EncodeError, match=f"no {other} layout"):
        write_request(schemas, "Metadata", 14, 7, "cid", BODY, INSTANCE_ID, other)


def test_before_header_3_there_is_no_layout(schemas: Schemas) -> None:
    request = read_request(schemas, write_request(schemas, "Metadata", 13, 7, "cid", BODY))
    assert (request.layout, request.client_instance_id) == (None, None)


def frame_on(api: Api, version: int, header_version: int, instance_id: bytes = bytes(range(16, 32))) -> bytes:
    """A request with its default body behind any header."""
    header = {"requestApiKey": api.key, "requestApiVersion": version, "correlationId": 1, "clientId": "app"}
    if header_version == 3:
        header["clientInstanceId"] = identifier_text(instance_id)
    written = write(compile_message(SCHEMAS.request_header, header_version), header)
    return written + write(compile_message(api.request, version), {})


METADATA = SCHEMAS.by_key[3]


def metadata_on_header_3(instance_id: bytes) -> bytes:
    return frame_on(METADATA, 13, 3, instance_id)


@pytest.mark.parametrize(("api", "version"), RELEASED, ids=lambda part: getattr(part, "name", part))
def test_a_request_on_its_own_header_has_no_other(api: Api, version: int) -> None:
    frame = frame_on(api, version, api.request_header_version(version))
    assert other_header(SCHEMAS, api, version, frame) is None


@pytest.mark.parametrize(("api", "version"), RELEASED, ids=lambda part: getattr(part, "name", part))
def test_a_released_version_on_header_3_is_told(api: Api, version: int) -> None:
    """But for Envelope: behind header 1, the instance ID reads as its first field, bytes of any length."""
    found = other_header(SCHEMAS, api, version, frame_on(api, version, 3))
    assert found == (None if api.name == "Envelope" else 3)


@given(st.binary(max_size=80) | st.binary(min_size=16, max_size=16).map(metadata_on_header_3))
def test_the_other_header_is_never_the_assigned_one(frame: bytes) -> None:
    assert other_header(SCHEMAS, METADATA, 13, frame) in (1, 3, None)
