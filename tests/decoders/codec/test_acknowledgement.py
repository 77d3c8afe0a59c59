"""Only a Produce with acks 0 expects no response, by the scalar and by the compiled code."""

from __future__ import annotations

from typing import Any

import pytest

from decoders.codec.columnar.acknowledgement import UNDECIDED, expected_responses, produce_layouts
from decoders.codec.columnar.reader import ColumnarReader
from decoders.codec.request import expects_response, write_request
from decoders.schema.header_versions import Layout
from decoders.schema.registry import default_schemas
from tests.decoders.codec.columnar_comparison import frames_of
from tests.decoders.codec.samples import Sample

SCHEMAS = default_schemas()
INSTANCE_ID = bytes(range(0x51, 0x61))


def produce(version: int, acks: int, instance_id: bytes | None = None) -> bytes:
    partition = {"index": 0, "records": "AAAA"}
    body = {"acks": acks, "topicData": [{"partitionData": [partition]}]}
    return write_request(SCHEMAS, "Produce", version, 7, "cid", body, instance_id)


@pytest.mark.parametrize("version", [3, 8, 9, 13])
@pytest.mark.parametrize(("acks", "expected"), [(0, False), (1, True), (-1, True)])
def test_acks_decide(version: int, acks: int, expected: bool) -> None:
    assert expects_response(SCHEMAS, produce(version, acks)) is expected


def test_no_more_than_the_acks_is_needed() -> None:
    frame = produce(9, 0)
    acks_end = 14 + 1 + 2
    assert expects_response(SCHEMAS, frame[:acks_end]) is False
    assert expects_response(SCHEMAS, frame[: acks_end - 1]) is None


def test_on_header_3_the_layout_must_be_proven() -> None:
    assert expects_response(SCHEMAS, produce(14, 0, INSTANCE_ID)) is False
    assert expects_response(SCHEMAS, produce(14, 1, INSTANCE_ID)) is True
    assert expects_response(SCHEMAS, produce(14, 0, INSTANCE_ID)[:-1]) is False
    assert expects_response(SCHEMAS, produce(14, 0, bytes(16))) is False
    assert expects_response(SCHEMAS, produce(14, 0, bytes(16))[:-1]) is None


@pytest.mark.parametrize(("acks", "expected"), [(0, False), (1, True)])
def test_acks_are_found_in_the_tagged_layout(acks: int, expected: bool) -> None:
    body = {"acks": acks, "topicData": [{"partitionData": [{"index": 0, "records": "AAAA"}]}]}
    frame = write_request(SCHEMAS, "Produce", 14, 7, "cid", body, INSTANCE_ID, Layout.TAGGED)
    assert expects_response(SCHEMAS, frame) is expected
    assert expects_response(SCHEMAS, frame[:-1]) is expected


def test_a_produce_of_an_unknown_version_is_undecided() -> None:
    assert expects_response(SCHEMAS, bytes.fromhex("0000 0002 00000007 ffff 0000")) is None


def test_every_other_request_expects_a_response() -> None:
    assert expects_response(SCHEMAS, bytes.fromhex("0003 0000 00000007 ffff 00000000")) is True
    assert expects_response(SCHEMAS, bytes.fromhex("7fff 0000 00000007")) is True
    assert expects_response(SCHEMAS, b"\0") is None


def decided_by_compiled_code(frames: list[bytes]) -> list[bool | None]:
    decoded = ColumnarReader(SCHEMAS).read(frames_of([Sample(frame, is_cut=True) for frame in frames]))
    expected = expected_responses(decoded, produce_layouts(SCHEMAS)).tolist()
    return [None if each == UNDECIDED else bool(each) for each in expected]


def test_compiled_code_decides_every_released_version() -> None:
    frames = [produce(version, acks) for version in range(3, 14) for acks in (-1, 0, 1)]
    assert decided_by_compiled_code(frames) == [expects_response(SCHEMAS, frame) for frame in frames]
    assert None not in decided_by_compiled_code(frames)


@pytest.mark.parametrize("transactional_id", [None, "", "t", "t" * 300])
@pytest.mark.parametrize("client_id", [None, "", "cid"])
def test_compiled_code_decides_nothing_else_than_scalar_code(
    client_id: str | None, transactional_id: str | None
) -> None:
    body: dict[str, Any] = {"acks": 0, "transactionalId": transactional_id, "topicData": []}
    whole = [write_request(SCHEMAS, "Produce", version, 7, client_id, body) for version in range(3, 14)]
    frames = [frame[:end] for frame in whole for end in range(8, len(frame) + 1)]
    frames += [
        frame[:at] + b"\xff" + frame[at + 1 :] for frame in whole for at in range(8, min(30, len(frame)))
    ]
    decided = decided_by_compiled_code(frames)
    for frame, compiled in zip(frames, decided, strict=True):
        assert compiled is None or compiled is expects_response(SCHEMAS, frame)
    assert False in decided


def test_compiled_code_leaves_what_it_does_not_know_to_scalar_code() -> None:
    unknown = bytes.fromhex("0000 0002 00000007 ffff 0000")
    frames = [produce(14, 0, INSTANCE_ID), unknown, b"\0\0\0\3", bytes.fromhex("7fff 0000 00000007")]
    assert decided_by_compiled_code(frames) == [None, None, None, True]
