"""The results of the columnar reader, and the columns that it refuses to make."""

from __future__ import annotations

import uuid

import numpy as np
import pytest

from decoders.codec.columnar.frames import NULL_LENGTH, DecodedFrames, Frames, ValueType
from decoders.codec.columnar.reader import ColumnarReader
from decoders.codec.failure import Defect, Oddity
from decoders.codec.request import write_request
from decoders.codec.response import write_response
from decoders.schema.header_versions import Layout
from decoders.schema.registry import default_schemas
from tests.decoders.codec.columnar_comparison import column_of, frames_of, heads_of
from tests.decoders.codec.samples import Sample

SCHEMAS = default_schemas()
INSTANCE_ID = bytes(range(0x51, 0x61))
WANTED = {
    "member_id": ["HeartbeatRequest.memberId", "ConsumerGroupHeartbeatResponse.memberId"],
    "group_id": ["HeartbeatRequest.groupId"],
    "error_codes": ["MetadataResponse.topics.errorCode", "MetadataResponse.errorCode"],
}
HEARTBEAT = write_request(SCHEMAS, "Heartbeat", 4, 7, "cid", {"groupId": "g", "memberId": "m"})


def read(wanted: dict[str, list[str]], *samples: Sample) -> DecodedFrames:
    return ColumnarReader(SCHEMAS, wanted).read(frames_of(samples))


def test_every_frame_has_a_head() -> None:
    answer = write_response(SCHEMAS, "Heartbeat", 4, 8, {})
    decoded = read({}, Sample(HEARTBEAT), Sample(answer, paired=(12, 4)), Sample(b"\0\x0c"))
    assert heads_of(decoded, "known") == [True, True, True]
    assert heads_of(decoded, "has_body") == [True, True, False]
    assert heads_of(decoded, "api") == [(12, 4), (12, 4), (12, -1)]
    assert heads_of(decoded, "header_version") == [2, 1, None]
    assert heads_of(decoded, "body_version") == [None, 4, None]
    assert heads_of(decoded, "correlation_id") == [7, 8, None]
    assert heads_of(decoded, "client_id") == [b"cid", None, None]
    failure = (Defect.TRUNCATED, "header.requestApiVersion", 2)
    assert heads_of(decoded, "failure") == [None, None, failure]


def test_the_length_of_an_array_may_be_wanted_instead_of_its_elements() -> None:
    frames = [
        write_request(SCHEMAS, "Metadata", 12, 1, None, {"topics": topics})
        for topics in (None, [], [{"name": "a"}, {"name": "b"}])
    ]
    decoded = read({"topics": ["MetadataRequest.topics[]"]}, *map(Sample, frames))
    assert decoded.found.tolist() == [[0, 0, NULL_LENGTH, 0], [1, 0, 0, 0], [2, 0, 2, 0]]


def test_the_instance_id_is_found_in_both_layouts() -> None:
    frames = [
        write_request(SCHEMAS, "Metadata", 14, 7, "cid", {"topics": []}, INSTANCE_ID, layout)
        for layout in Layout
    ]
    decoded = read({}, *map(Sample, frames), Sample(HEARTBEAT))
    assert heads_of(decoded, "client_instance_id") == [INSTANCE_ID, INSTANCE_ID, None]
    assert heads_of(decoded, "layout") == [Layout.PLAIN, Layout.TAGGED, None]


def test_a_column_takes_fields_of_several_messages_and_has_no_other_values() -> None:
    answer = write_response(SCHEMAS, "ConsumerGroupHeartbeat", 1, 7, {"memberId": "assigned"})
    cut = Sample(HEARTBEAT[:-4], is_cut=True)
    wanted = {name: WANTED[name] for name in ("member_id", "group_id")}
    decoded = read(wanted, Sample(HEARTBEAT), Sample(answer, paired=(68, 1)), cut)
    assert column_of(decoded, "member_id") == [[b"m"], [b"assigned"], None]
    assert column_of(decoded, "group_id") == [[b"g"], None, None]


def test_a_field_inside_an_array_has_any_number_of_values() -> None:
    topics = [{"name": "a", "errorCode": 3}, {"name": "b", "errorCode": 0}]
    answers = [write_response(SCHEMAS, "Metadata", 12, 7, {"topics": some}) for some in (topics, [])]
    wanted = {"errors": ["MetadataResponse.topics.errorCode"], "names": ["MetadataResponse.topics.name"]}
    decoded = read(wanted, *(Sample(answer, paired=(3, 12)) for answer in answers), Sample(HEARTBEAT))
    assert column_of(decoded, "errors") == [[3, 0], [], None]
    assert column_of(decoded, "names") == [[b"a", b"b"], [], None]


def test_a_column_knows_the_type_of_its_values() -> None:
    topic_id = uuid.UUID(int=5).bytes
    frame = write_request(
        SCHEMAS, "Metadata", 12, 7, None, {"topics": [{"topicId": "AAAAAAAAAAAAAAAAAAAABQ", "name": None}]}
    )
    quotas = {"entries": [{"entity": [], "ops": [{"key": "rate", "value": 1.5, "remove": True}]}]}
    altered = write_request(SCHEMAS, "AlterClientQuotas", 1, 7, None, quotas)
    wanted = {
        "ids": ["MetadataRequest.topics.topicId"],
        "auto": ["MetadataRequest.allowAutoTopicCreation"],
        "rates": ["AlterClientQuotasRequest.entries.ops.value"],
    }
    decoded = read(wanted, Sample(frame), Sample(altered))
    assert [column.type for column in decoded.columns] == [
        ValueType.UUID,
        ValueType.BOOLEAN,
        ValueType.FLOAT,
    ]
    assert column_of(decoded, "ids") == [[topic_id], None]
    assert column_of(decoded, "auto") == [[True], None]
    assert column_of(decoded, "rates") == [None, [1.5]]


def test_a_null_has_no_value() -> None:
    body = {"groupId": "g", "memberId": "m", "groupInstanceId": None}
    frame = write_request(SCHEMAS, "Heartbeat", 4, 7, None, body)
    decoded = read({"instance": ["HeartbeatRequest.groupInstanceId"]}, Sample(frame))
    assert column_of(decoded, "instance") == [[]]
    assert heads_of(decoded, "client_id") == [None]


def test_remarks_are_those_of_the_scalar_reader() -> None:
    decoded = read({}, Sample(HEARTBEAT), Sample(HEARTBEAT + b"\0"))
    assert heads_of(decoded, "remarks") == [[], [(Oddity.TRAILING_BYTES, "", len(HEARTBEAT))]]


def test_more_is_found_than_there_was_room_for() -> None:
    topics = [{"name": f"topic-{number}"} for number in range(5_000)]
    frame = write_request(SCHEMAS, "Metadata", 1, 7, None, {"topics": topics})
    decoded = read({"names": ["MetadataRequest.topics.name"]}, Sample(HEARTBEAT), Sample(frame))
    assert column_of(decoded, "names") == [None, [topic["name"].encode() for topic in topics]]


def test_more_is_remarked_than_there_was_room_for() -> None:
    decoded = read({}, *[Sample(HEARTBEAT + b"\0")] * 1_000)
    assert heads_of(decoded, "remarks") == [[(Oddity.TRAILING_BYTES, "", len(HEARTBEAT))]] * 1_000


def test_no_frames_make_no_rows() -> None:
    decoded = read({"group_id": WANTED["group_id"]})
    assert (len(decoded.heads), len(decoded.found), len(decoded.remarks)) == (0, 0, 0)


def test_contents_are_places_in_the_data() -> None:
    frames = frames_of([Sample(HEARTBEAT)])
    decoded = ColumnarReader(SCHEMAS, {"group_id": WANTED["group_id"]}).read(frames)
    ((_, _, begin, length),) = decoded.found.tolist()
    assert decoded.frames.data is frames.data
    assert HEARTBEAT[begin : begin + length] == b"g"


REFUSED = [
    pytest.param({"a": ["HeartbeatRequest.nothing"]}, "no message has the field", id="no such field"),
    pytest.param({"a": ["Nothing.memberId"]}, "no message has the field", id="no such message"),
    pytest.param({"a": ["MetadataRequest.topics"]}, "is a struct", id="a struct"),
    pytest.param(
        {"a": ["MetadataRequest.topics.name"], "b": ["MetadataRequest.topics.name"]}, "twice", id="2"
    ),
    pytest.param({"a": ["HeartbeatRequest.groupId", "HeartbeatRequest.memberId"]}, "two fields", id="same"),
    pytest.param(
        {"a": ["HeartbeatRequest.groupId", "HeartbeatResponse.errorCode"]}, "not of one type", id="types"
    ),
]


@pytest.mark.parametrize(("wanted", "reason"), REFUSED)
def test_what_makes_no_column_is_refused(wanted: dict[str, list[str]], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        ColumnarReader(SCHEMAS, wanted)


def test_a_frame_outside_the_data_is_refused() -> None:
    one = np.ones(1, np.int16)
    with pytest.raises(ValueError, match="outside"):
        Frames(
            np.zeros(4, np.uint8), one.astype(np.int64), one.astype(np.int32) * 4, one > 2, one > 0, one, one
        )


def test_what_was_read_stays_what_it_was_when_the_next_frames_are_read() -> None:
    wanted = {name: WANTED[name] for name in ("member_id", "group_id")}
    wanted["topic_errors"] = ["MetadataResponse.topics.errorCode"]
    reader = ColumnarReader(SCHEMAS, wanted)
    answer = write_response(SCHEMAS, "Metadata", 13, 7, {"topics": [{"errorCode": 3, "name": "t"}]})
    samples = [Sample(HEARTBEAT), Sample(answer, paired=(3, 13)), Sample(HEARTBEAT + b"\0"), Sample(b"\0")]
    first, expected = reader.read(frames_of(samples)), read(wanted, *samples)
    other = write_request(SCHEMAS, "Heartbeat", 4, 7, "dic", {"groupId": "h", "memberId": "n"})
    reader.read(frames_of([Sample(other)] * 4))
    assert first.heads.tolist() == expected.heads.tolist()
    assert first.found.tolist() == expected.found.tolist()
    assert first.remarks.tolist() == expected.remarks.tolist()
    assert heads_of(first, "client_id") == [b"cid", None, b"cid", None]
    assert column_of(first, "group_id") == [[b"g"], None, [b"g"], None]
