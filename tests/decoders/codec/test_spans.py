"""Spans: the places of requested fields' contents in the frame."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.codec.request import read_request, write_request
from decoders.schema.registry import default_schemas

SCHEMAS = default_schemas()
RECORDS = "topicData.partitionData.records"


def contents(frame: bytes, path: str) -> list[bytes]:
    spans = read_request(SCHEMAS, frame, spans=[path]).spans
    assert list(spans) == [path]
    return [frame[begin:end] for begin, end in spans[path]]


@pytest.mark.parametrize("version", [3, 9, 14], ids=["int32 lengths", "compact lengths", "header 3"])
def test_records_are_found_without_their_lengths(version: int) -> None:
    payloads = [b"first", b"x" * 300, b""]
    partitions = [{"records": base64.b64encode(payload).decode()} for payload in payloads]
    body = {"acks": 1, "topicData": [{"partitionData": [*partitions, {"records": None}]}]}
    instance_id = bytes(range(0x51, 0x61)) if version == 14 else None
    frame = write_request(SCHEMAS, "Produce", version, 7, "cid", body, instance_id)
    assert contents(frame, RECORDS) == payloads


def test_strings_and_fields_of_fixed_size_are_found_too() -> None:
    frame = write_request(SCHEMAS, "Metadata", 13, 7, None, {"topics": [{"name": "a"}, {"name": "bc"}]})
    assert contents(frame, "topics.name") == [b"a", b"bc"]
    assert contents(frame, "topics.topicId") == [bytes(16), bytes(16)]
    assert contents(frame, "allowAutoTopicCreation") == [b"\1"]


def test_each_element_of_an_array_is_found() -> None:
    body = {"groupId": "g", "memberId": "m", "topicPartitions": None, "subscribedTopicNames": ["a", "bc"]}
    frame = write_request(SCHEMAS, "ConsumerGroupHeartbeat", 1, 7, None, body)
    assert contents(frame, "subscribedTopicNames") == [b"a", b"bc"]


def test_a_path_that_the_message_does_not_have_has_no_spans() -> None:
    frame = write_request(SCHEMAS, "Metadata", 13, 7, "cid", {})
    assert contents(frame, "clientId") == []


PARTITION = {"index": 0, "records": "AAAA"}
PRODUCE = write_request(
    SCHEMAS, "Produce", 9, 7, "cid", {"acks": 1, "topicData": [{"name": "t", "partitionData": [PARTITION]}]}
)


@given(at=st.integers(0, len(PRODUCE) - 1), byte=st.integers(0, 255))
def test_spans_of_a_damaged_frame_are_inside_of_it(at: int, byte: int) -> None:
    frame = PRODUCE[:at] + bytes([byte]) + PRODUCE[at + 1 :]
    for begin, end in read_request(SCHEMAS, frame, spans=[RECORDS]).spans.get(RECORDS, ()):
        assert 0 <= begin <= end <= len(frame)
