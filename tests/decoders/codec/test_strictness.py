"""Bytes that Kafka refuses are a failure with its place; bytes that it tolerates are read, with a remark.

Both readers say the same of each.
"""

from __future__ import annotations

import pytest

from decoders.codec.failure import DecodeFailure, Defect, EncodeError, Oddity
from decoders.codec.request import read_request, write_request
from decoders.codec.response import read_response, write_response
from decoders.schema.registry import default_schemas
from tests.decoders.codec.columnar_comparison import hold_against_the_scalar_reader
from tests.decoders.codec.samples import Sample

SCHEMAS = default_schemas()
HEADER = "0012 0003 00000007 0003 636964"
"""ApiVersions v3 up to the tags of its header, 13 bytes."""
BROKER_HEARTBEAT = f"003f 0000 00000007 ffff 00 {'00' * 22}"
"""BrokerHeartbeat v0 up to the tags of its body, 33 bytes; the schema has tag 0 from version 1 on."""


def failure_of(frame: str) -> DecodeFailure:
    hold_against_the_scalar_reader([Sample(bytes.fromhex(frame))])
    request = read_request(SCHEMAS, bytes.fromhex(frame))
    assert request.body is None
    assert request.failure is not None
    return request.failure


FAILURES = [
    pytest.param(f"{HEADER} 00 02", Defect.TRUNCATED, "clientSoftwareName", 14, id="string runs out"),
    pytest.param(f"{HEADER} 00 00 0231 00", Defect.NULL_NOT_ALLOWED, "clientSoftwareName", 14, id="null"),
    pytest.param(
        f"{HEADER} 00 0278 ffffffffff 00",
        Defect.INVALID_VARINT,
        "clientSoftwareVersion",
        16,
        id="varint",
    ),
    pytest.param(f"{HEADER} 00 0278 0231", Defect.TRUNCATED, "_taggedFields", 18, id="no tags"),
    pytest.param(
        f"{HEADER} 00 0278 0231 01 09 05 00", Defect.TRUNCATED, "_taggedFields", 19, id="tag runs out"
    ),
    pytest.param(
        f"{HEADER} 00 0278 0231 ffffffff0f", Defect.INVALID_LENGTH, "_taggedFields", 18, id="-1 tags"
    ),
    pytest.param(
        f"{HEADER} 00 818002", Defect.INVALID_LENGTH, "clientSoftwareName", 14, id="string of 32768"
    ),
    pytest.param(f"{HEADER}", Defect.TRUNCATED, "header._taggedFields", 13, id="header without tags"),
    pytest.param(
        "0012 0003 00000007 0009 63", Defect.TRUNCATED, "header.clientId", 8, id="client ID runs out"
    ),
    pytest.param("0012 0003 000007", Defect.TRUNCATED, "header.correlationId", 4, id="7 bytes"),
    pytest.param("0012 00", Defect.TRUNCATED, "header.requestApiVersion", 2, id="3 bytes"),
    pytest.param("", Defect.TRUNCATED, "header.requestApiKey", 0, id="nothing"),
    pytest.param(
        "0003 0001 00000007 ffff 00000001 0005 61",
        Defect.TRUNCATED,
        "topics.name",
        14,
        id="inside an array",
    ),
    pytest.param("0003 0001 00000007 ffff 7fffffff", Defect.TRUNCATED, "topics", 10, id="array of 2^31"),
    pytest.param(
        # A list of that size would take 16 GiB.
        "0003 000d 00000007 ffff 00 ffffffff07",
        Defect.TRUNCATED,
        "topics",
        11,
        id="compact array of 2^31",
    ),
    pytest.param(
        f"{BROKER_HEARTBEAT} 01 00 00", Defect.INVALID_TAG, "_taggedFields", 34, id="tag of version 1"
    ),
]


@pytest.mark.parametrize(("frame", "reason", "path", "offset"), FAILURES)
def test_what_kafka_refuses_fails_and_says_where(frame: str, reason: Defect, path: str, offset: int) -> None:
    failure = failure_of(frame)
    assert (failure.reason, failure.path, failure.offset) == (reason, path, offset)


def test_a_header_that_fails_keeps_what_was_read_of_it() -> None:
    request = read_request(SCHEMAS, bytes.fromhex(HEADER))
    assert (request.correlation_id, request.client_id, request.header_version) == (7, "cid", None)


ODDITIES = [
    pytest.param("0278 0231 00 ff", Oddity.TRAILING_BYTES, "", 19, id="one byte more"),
    pytest.param("828000 78 0231 00", Oddity.OVERLONG_VARINT, "clientSoftwareName", 14, id="2 in 3 bytes"),
    pytest.param("0278 0231 02 09 00 09 00", Oddity.TAG_ORDER, "_taggedFields", 21, id="tag twice"),
    pytest.param("02ff 0231 00", Oddity.INVALID_UTF8, "clientSoftwareName", 14, id="not UTF-8"),
]


@pytest.mark.parametrize(("body", "oddity", "path", "offset"), ODDITIES)
def test_what_kafka_tolerates_is_read_with_a_remark(
    body: str, oddity: Oddity, path: str, offset: int
) -> None:
    frame = bytes.fromhex(f"{HEADER} 00 {body}")
    hold_against_the_scalar_reader([Sample(frame)])
    request = read_request(SCHEMAS, frame)
    assert request.failure is None
    assert request.body is not None
    assert request.body["clientSoftwareVersion"] == "1"
    assert [(remark.oddity, remark.path, remark.offset) for remark in request.remarks] == [
        (oddity, path, offset)
    ]


def test_what_is_not_utf8_becomes_replacement_characters_as_in_java() -> None:
    request = read_request(SCHEMAS, bytes.fromhex(f"{HEADER} 00 03 e6bc 0231 00"))
    assert request.body is not None
    assert request.body["clientSoftwareName"] == "\N{REPLACEMENT CHARACTER}"


def test_a_wrong_tag_size_is_not_believed() -> None:
    good = write_response(SCHEMAS, "ApiVersions", 3, 7, {"zkMigrationReady": True})
    assert good.endswith(bytes.fromhex("01 03 01 01"))
    wrong = good[:-2] + b"\x05\x01"
    hold_against_the_scalar_reader([Sample(wrong, paired=(18, 3))])
    response = read_response(SCHEMAS, wrong, 18, 3)
    assert response.body is not None
    assert response.body["zkMigrationReady"] is True
    assert [remark.oddity for remark in response.remarks] == [Oddity.TAG_SIZE_MISMATCH]


def test_any_negative_length_is_null() -> None:
    frame = bytes.fromhex("0003 0001 00000007 fffe fffffffd")
    hold_against_the_scalar_reader([Sample(frame)])
    request = read_request(SCHEMAS, frame)
    assert (request.client_id, request.body) == (None, {"topics": None})
    assert [remark.path for remark in request.remarks] == ["header.clientId", "topics"]


REFUSED = [
    pytest.param({"topics": [{"nam": "a"}]}, "topics.nam", id="no such field"),
    pytest.param({"topics": [{"name": 3}]}, "topics.name", id="wrong type"),
    pytest.param({"topics": [{"name": "a" * 0x8000}]}, "topics.name", id="string too long"),
    pytest.param({"topics": "abc"}, "topics", id="not a list"),
    pytest.param({"topics": None}, "topics", id="null not allowed"),
    pytest.param({"allowAutoTopicCreation": False}, "allowAutoTopicCreation", id="not at this version"),
]


@pytest.mark.parametrize(("body", "path"), REFUSED)
def test_the_writer_refuses_what_the_version_cannot_carry(body: dict[str, object], path: str) -> None:
    with pytest.raises(EncodeError) as refused:
        write_request(SCHEMAS, "Metadata", 0, 7, None, body)
    assert refused.value.path == path


def test_the_writer_drops_what_may_be_lost() -> None:
    default = {"topics": [{"name": "a"}], "allowAutoTopicCreation": True}
    ignorable = {"topics": [{"name": "a", "topicId": "AAAAAAAAAAAAAAAAAAAAAQ"}]}
    frame = write_request(SCHEMAS, "Metadata", 0, 7, None, {"topics": [{"name": "a"}]})
    assert write_request(SCHEMAS, "Metadata", 0, 7, None, default) == frame
    assert write_request(SCHEMAS, "Metadata", 0, 7, None, ignorable) == frame


def test_an_instance_id_needs_header_3() -> None:
    with pytest.raises(EncodeError, match="clientInstanceId"):
        write_request(SCHEMAS, "Metadata", 13, 7, None, {}, bytes(range(16)))


def test_an_unknown_api_or_version_cannot_be_written() -> None:
    with pytest.raises(EncodeError, match="there is no Nothing version 0"):
        write_request(SCHEMAS, "Nothing", 0, 7, None, {})
    with pytest.raises(EncodeError, match="there is no 3 version 99"):
        write_response(SCHEMAS, 3, 99, 7, {})
