"""Only a Produce with acks 0 is owed no answer."""

from __future__ import annotations

import pytest

from decoders.codec.acknowledgement import owes_answer
from decoders.codec.request import write_request
from decoders.schema.header_versions import Layout
from decoders.schema.registry import default_schemas

SCHEMAS = default_schemas()
INSTANCE_ID = bytes(range(0x51, 0x61))


def produce(version: int, acks: int, instance_id: bytes | None = None) -> bytes:
    partition = {"index": 0, "records": "AAAA"}
    body = {"acks": acks, "topicData": [{"partitionData": [partition]}]}
    return write_request(SCHEMAS, "Produce", version, 7, "cid", body, instance_id)


@pytest.mark.parametrize("version", [3, 8, 9, 13])
@pytest.mark.parametrize(("acks", "owed"), [(0, False), (1, True), (-1, True)])
def test_acks_decide(version: int, acks: int, owed: bool) -> None:
    assert owes_answer(SCHEMAS, produce(version, acks)) is owed


def test_no_more_than_the_acks_is_needed() -> None:
    frame = produce(9, 0)
    acks_end = 14 + 1 + 2
    assert owes_answer(SCHEMAS, frame[:acks_end]) is False
    assert owes_answer(SCHEMAS, frame[: acks_end - 1]) is None


def test_on_header_3_the_layout_must_be_proven() -> None:
    assert owes_answer(SCHEMAS, produce(14, 0, INSTANCE_ID)) is False
    assert owes_answer(SCHEMAS, produce(14, 1, INSTANCE_ID)) is True
    assert owes_answer(SCHEMAS, produce(14, 0, INSTANCE_ID)[:-1]) is False
    assert owes_answer(SCHEMAS, produce(14, 0, bytes(16))) is False
    assert owes_answer(SCHEMAS, produce(14, 0, bytes(16))[:-1]) is None


@pytest.mark.parametrize(("acks", "owed"), [(0, False), (1, True)])
def test_acks_are_found_in_the_tagged_layout(acks: int, owed: bool) -> None:
    body = {"acks": acks, "topicData": [{"partitionData": [{"index": 0, "records": "AAAA"}]}]}
    frame = write_request(SCHEMAS, "Produce", 14, 7, "cid", body, INSTANCE_ID, Layout.TAGGED)
    assert owes_answer(SCHEMAS, frame) is owed
    assert owes_answer(SCHEMAS, frame[:-1]) is owed


def test_a_produce_of_an_unknown_version_does_not_tell() -> None:
    assert owes_answer(SCHEMAS, bytes.fromhex("0000 0002 00000007 ffff 0000")) is None


def test_everything_else_is_owed_an_answer() -> None:
    assert owes_answer(SCHEMAS, bytes.fromhex("0003 0000 00000007 ffff 00000000")) is True
    assert owes_answer(SCHEMAS, bytes.fromhex("7fff 0000 00000007")) is True
    assert owes_answer(SCHEMAS, b"\0") is None
