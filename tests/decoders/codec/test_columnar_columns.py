"""What the columnar reader gives as Arrow columns, and what it refuses."""

from __future__ import annotations

import uuid

import numpy as np
import pyarrow as pa
import pytest

from decoders.codec.columnar.frames import Frames
from decoders.codec.columnar.reader import ColumnarReader
from decoders.codec.request import write_request
from decoders.codec.response import write_response
from decoders.schema.header_versions import Layout
from decoders.schema.registry import default_schemas
from tests.decoders.codec.columnar_comparison import Sample, frames_of

SCHEMAS = default_schemas()
INSTANCE_ID = bytes(range(0x51, 0x61))
WANTED = {
    "member_id": ["HeartbeatRequest.memberId", "ConsumerGroupHeartbeatResponse.memberId"],
    "group_id": ["HeartbeatRequest.groupId"],
    "error_codes": ["MetadataResponse.topics.errorCode", "MetadataResponse.errorCode"],
}
HEARTBEAT = write_request(SCHEMAS, "Heartbeat", 4, 7, "cid", {"groupId": "g", "memberId": "m"})


def read(wanted: dict[str, list[str]], *samples: Sample) -> pa.RecordBatch:
    return ColumnarReader(SCHEMAS, wanted).read(frames_of(samples)).record_batch()


def test_what_every_frame_has_comes_first() -> None:
    answer = write_response(SCHEMAS, "Heartbeat", 4, 8, {})
    batch = read({}, Sample(HEARTBEAT), Sample(answer, paired=(12, 4)), Sample(b"\0\x0c"))
    assert batch.column("known").to_pylist() == [True, True, True]
    assert batch.column("has_body").to_pylist() == [True, True, False]
    assert batch.column("api_key").to_pylist() == [12, 12, 12]
    assert batch.column("api_version").to_pylist() == [4, 4, -1]
    assert batch.column("header_version").to_pylist() == [2, 1, None]
    assert batch.column("body_version").to_pylist() == [None, 4, None]
    assert batch.column("correlation_id").to_pylist() == [7, 8, None]
    assert batch.column("client_id").to_pylist() == [b"cid", None, None]
    assert batch.column("failure_reason").to_pylist() == [None, None, "truncated"]
    assert batch.column("failure_path").to_pylist() == [None, None, "header.requestApiVersion"]
    assert batch.column("failure_offset").to_pylist() == [None, None, 2]


def test_the_instance_id_is_given_in_both_layouts() -> None:
    frames = [
        write_request(SCHEMAS, "Metadata", 14, 7, "cid", {"topics": []}, INSTANCE_ID, layout)
        for layout in Layout
    ]
    batch = read({}, *map(Sample, frames), Sample(HEARTBEAT))
    assert batch.column("client_instance_id").to_pylist() == [INSTANCE_ID, INSTANCE_ID, None]
    assert batch.column("layout").to_pylist() == ["plain", "tagged", None]


def test_a_column_takes_fields_of_several_messages_and_is_null_elsewhere() -> None:
    answer = write_response(SCHEMAS, "ConsumerGroupHeartbeat", 1, 7, {"memberId": "assigned"})
    cut = Sample(HEARTBEAT[:-4], is_cut=True)
    wanted = {name: WANTED[name] for name in ("member_id", "group_id")}
    batch = read(wanted, Sample(HEARTBEAT), Sample(answer, paired=(68, 1)), cut)
    assert batch.column("member_id").to_pylist() == [b"m", b"assigned", None]
    assert batch.column("group_id").to_pylist() == [b"g", None, None]


def test_a_field_inside_an_array_makes_lists() -> None:
    topics = [{"name": "a", "errorCode": 3}, {"name": "b", "errorCode": 0}]
    answers = [write_response(SCHEMAS, "Metadata", 12, 7, {"topics": some}) for some in (topics, [])]
    wanted = {"errors": ["MetadataResponse.topics.errorCode"], "names": ["MetadataResponse.topics.name"]}
    batch = read(wanted, *(Sample(answer, paired=(3, 12)) for answer in answers), Sample(HEARTBEAT))
    assert batch.column("errors").to_pylist() == [[3, 0], [], None]
    assert batch.column("names").to_pylist() == [[b"a", b"b"], [], None]


def test_every_sort_of_field_has_its_type() -> None:
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
    batch = read(wanted, Sample(frame), Sample(altered))
    assert batch.column("ids").to_pylist() == [[topic_id], None]
    assert batch.column("auto").to_pylist() == [True, None]
    assert batch.column("rates").to_pylist() == [None, [1.5]]


def test_remarks_are_lists_in_the_scalar_readers_words() -> None:
    batch = read({}, Sample(HEARTBEAT), Sample(HEARTBEAT + b"\0"))
    remark = {"oddity": "trailing-bytes", "path": "", "offset": len(HEARTBEAT)}
    assert batch.column("remarks").to_pylist() == [[], [remark]]


def test_more_is_found_than_there_was_room_for() -> None:
    topics = [{"name": f"topic-{number}"} for number in range(5_000)]
    frame = write_request(SCHEMAS, "Metadata", 1, 7, None, {"topics": topics})
    batch = read({"names": ["MetadataRequest.topics.name"]}, Sample(HEARTBEAT), Sample(frame))
    assert batch.column("names").to_pylist() == [None, [topic["name"].encode() for topic in topics]]


def test_no_frames_make_no_rows() -> None:
    assert read({"group_id": WANTED["group_id"]}).num_rows == 0


REFUSED = [
    pytest.param({"a": ["HeartbeatRequest.nothing"]}, "no message has the field", id="no such field"),
    pytest.param({"a": ["Nothing.memberId"]}, "no message has the field", id="no such message"),
    pytest.param({"a": ["MetadataRequest.topics"]}, "is a struct", id="a struct"),
    pytest.param(
        {"a": ["MetadataRequest.topics.name"], "b": ["MetadataRequest.topics.name"]}, "twice", id="2"
    ),
    pytest.param({"a": ["HeartbeatRequest.groupId", "HeartbeatRequest.memberId"]}, "two fields", id="same"),
    pytest.param(
        {"a": ["HeartbeatRequest.groupId", "HeartbeatResponse.errorCode"]}, "not of one sort", id="sorts"
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


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_frames_are_taken_from_arrow_where_they_stand(kind: pa.DataType) -> None:
    answer = write_response(SCHEMAS, "Heartbeat", 4, 8, {})
    contents = pa.array([b"before", HEARTBEAT, answer], kind).slice(1)
    paired = [pa.array([None, number], pa.int16()) for number in (12, 4)]
    frames = Frames.of_arrow(contents, pa.array([True, False]), pa.array([False, False]), *paired)
    batch = ColumnarReader(SCHEMAS, {"group_id": WANTED["group_id"]}).read(frames).record_batch()
    assert frames.data.ctypes.data == contents.buffers()[2].address
    assert batch.column("correlation_id").to_pylist() == [7, 8]
    assert batch.column("group_id").to_pylist() == [b"g", None]


def test_no_frames_are_taken_from_arrow() -> None:
    flags, numbers = pa.array([], pa.bool_()), pa.array([], pa.int16())
    assert len(Frames.of_arrow(pa.array([], pa.binary()), flags, flags, numbers, numbers)) == 0


def test_a_null_frame_is_refused() -> None:
    flags, numbers = pa.array([True]), pa.array([1], pa.int16())
    with pytest.raises(ValueError, match="null"):
        Frames.of_arrow(pa.array([None], pa.binary()), flags, flags, numbers, numbers)


def test_what_is_wanted_stays_what_it_was_when_the_next_frames_are_read() -> None:
    reader = ColumnarReader(SCHEMAS, {"group_id": WANTED["group_id"]})
    other = write_request(SCHEMAS, "Heartbeat", 4, 7, "dic", {"groupId": "h", "memberId": "m"})
    first = reader.read(frames_of([Sample(HEARTBEAT)]))
    reader.read(frames_of([Sample(other)]))
    assert first.record_batch().column("client_id").to_pylist() == [b"cid"]
    assert first.column("group_id").to_pylist() == [b"g"]


def test_columns_at_once_are_those_of_a_reading_and_stay_what_they_were() -> None:
    wanted = {name: WANTED[name] for name in ("member_id", "group_id")}
    wanted["topic_errors"] = ["MetadataResponse.topics.errorCode"]
    reader = ColumnarReader(SCHEMAS, wanted)
    answer = write_response(SCHEMAS, "Metadata", 13, 7, {"topics": [{"errorCode": 3, "name": "t"}]})
    samples = [Sample(HEARTBEAT), Sample(answer, paired=(3, 13)), Sample(b"\0")]
    at_once = reader.record_batch(frames_of(samples))
    reader.record_batch(frames_of([Sample(HEARTBEAT.replace(b"cid", b"dic"))] * 3))
    assert at_once.equals(read(wanted, *samples))
