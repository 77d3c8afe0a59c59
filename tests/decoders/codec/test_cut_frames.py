"""Frames whose tail was not captured: their end is no failure, and they prove less."""

from __future__ import annotations

from decoders.codec.failure import Defect
from decoders.codec.request import read_request, write_request
from decoders.codec.response import read_response, write_response
from decoders.schema.header_versions import Layout
from decoders.schema.registry import default_schemas

SCHEMAS = default_schemas()
INSTANCE_ID = bytes(range(0x51, 0x61))
BODY = {"topics": [{"name": "orders"}]}


def test_wherever_a_request_is_cut_nothing_fails() -> None:
    frame = write_request(SCHEMAS, "Metadata", 13, 7, "cid", BODY)
    for kept in range(len(frame)):
        request = read_request(SCHEMAS, frame[:kept], cut=True)
        assert (request.known, request.cut, request.failure, request.body) == (True, True, None, None)
        assert request.header_version == (2 if kept >= 14 else None)
        assert request.client_id == ("cid" if kept >= 13 else None)


def test_wherever_a_response_is_cut_nothing_fails() -> None:
    frame = write_response(SCHEMAS, "Metadata", 13, 7, {"topics": [{"name": "orders"}]})
    for kept in range(len(frame)):
        response = read_response(SCHEMAS, frame[:kept], 3, 13, cut=True)
        assert (response.known, response.cut, response.failure, response.body) == (True, True, None, None)
        assert response.correlation_id == (7 if kept >= 4 else None)


def test_what_is_wrong_before_the_cut_still_fails() -> None:
    request = read_request(SCHEMAS, bytes.fromhex("0012 0003 00000007 ffff 00 00"), cut=True)
    assert request.failure is not None
    assert request.failure.reason is Defect.NULL_NOT_ALLOWED


def test_a_cut_frame_on_header_3_shows_its_header() -> None:
    frame = write_request(SCHEMAS, "Metadata", 14, 7, "cid", BODY, INSTANCE_ID)
    whole_header = 13 + 16 + 1
    for kept in range(8, len(frame)):
        request = read_request(SCHEMAS, frame[:kept], cut=True)
        proven = kept >= whole_header
        assert (request.known, request.body, request.failure) == (proven, None, None)
        assert request.header_version == (3 if proven else None)
        assert request.client_instance_id == (INSTANCE_ID if proven else None)


def test_a_cut_frame_whose_instance_id_could_be_the_tags_of_header_2_proves_nothing() -> None:
    for instance_id in (bytes(16), b"\0" + INSTANCE_ID[1:]):
        frame = write_request(SCHEMAS, "Metadata", 14, 7, "cid", BODY, instance_id)
        assert not read_request(SCHEMAS, frame[:-1], cut=True).known


def test_a_cut_frame_with_tags_in_header_3_proves_nothing() -> None:
    frame = write_request(SCHEMAS, "Metadata", 14, 7, None, BODY, INSTANCE_ID)
    tagged = frame[:26] + b"\x01\x00\x00" + frame[27:]
    assert not read_request(SCHEMAS, tagged[:-1], cut=True).known


def test_a_cut_frame_in_the_tagged_layout_shows_its_header() -> None:
    frame = write_request(SCHEMAS, "Metadata", 14, 7, "cid", BODY, INSTANCE_ID, Layout.TAGGED)
    whole_header = 13 + 3 + 16
    for kept in range(8, len(frame)):
        request = read_request(SCHEMAS, frame[:kept], cut=True)
        proven = kept >= whole_header
        assert (request.known, request.body, request.failure) == (proven, None, None)
        assert request.layout is (Layout.TAGGED if proven else None)
        assert request.client_instance_id == (INSTANCE_ID if proven else None)


def test_a_cut_frame_that_reads_in_both_layouts_up_to_the_cut_proves_nothing() -> None:
    instance_id = INSTANCE_ID[:13] + b"\0" + INSTANCE_ID[14:]
    frame = write_request(SCHEMAS, "SaslAuthenticate", 3, 7, None, {}, instance_id, Layout.TAGGED)
    assert not read_request(SCHEMAS, frame[:-2], cut=True).known
