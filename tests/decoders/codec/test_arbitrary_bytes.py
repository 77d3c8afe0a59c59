"""Any bytes make a Request or a Response, never an exception."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from decoders.codec.failure import DecodeFailure
from decoders.codec.request import expects_response, read_request, write_request
from decoders.codec.response import read_response
from decoders.schema.registry import default_schemas
from tests.examples import examples

SCHEMAS = default_schemas()
KEYS = st.sampled_from([api.key for api in SCHEMAS.apis]) | st.integers(-0x8000, 0x7FFF)
VERSIONS = st.integers(-1, 20)
HEADS = st.builds(lambda key, version: struct.pack(">hhi", key, version, 7) + b"\xff\xff\0", KEYS, VERSIONS)
FRAMES = st.binary(max_size=40) | st.builds(bytes.__add__, HEADS, st.binary(max_size=60))
PRODUCE = write_request(
    SCHEMAS,
    "Produce",
    9,
    7,
    "cid",
    {"acks": 1, "topicData": [{"name": "t", "partitionData": [{"index": 0, "records": "AAAA"}]}]},
)


@examples(400)
@given(frame=FRAMES, cut=st.booleans())
def test_any_bytes_make_a_request(frame: bytes, cut: bool) -> None:
    request = read_request(SCHEMAS, frame, cut=cut)
    assert request.failure is None or isinstance(request.failure, DecodeFailure)
    assert request.failure is None or 0 <= request.failure.offset <= len(frame)
    assert expects_response(SCHEMAS, frame) in (True, False, None)


@examples(400)
@given(frame=st.binary(max_size=60), key=KEYS, version=VERSIONS, cut=st.booleans())
def test_any_bytes_make_a_response(frame: bytes, key: int, version: int, cut: bool) -> None:
    response = read_response(SCHEMAS, frame, key, version, cut=cut)
    assert response.failure is None or 0 <= response.failure.offset <= len(frame)


@given(at=st.integers(0, len(PRODUCE) - 1), byte=st.integers(0, 255))
def test_a_frame_with_one_byte_changed_keeps_its_spans_inside(at: int, byte: int) -> None:
    frame = PRODUCE[:at] + bytes([byte]) + PRODUCE[at + 1 :]
    path = "topicData.partitionData.records"
    for begin, end in read_request(SCHEMAS, frame, spans=[path]).spans.get(path, ()):
        assert 0 <= begin <= end <= len(frame)


def test_a_length_is_checked_before_anything_is_allocated() -> None:
    # 2^31 - 2 topics are announced; a list of that size would take 16 GiB.
    frame = bytes.fromhex("0003 000d 00000007 ffff 00 ffffffff07")
    request = read_request(SCHEMAS, frame)
    assert request.failure is not None
    assert request.failure.path == "topics"
