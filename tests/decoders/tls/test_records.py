"""TLS records in a stream: where bytes are records, and where one begins behind lost bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.tls.records import HEADER_SIZE, BrokenRecordError, RecordReader, TlsRecord, begins_with_record
from tests.examples import examples

RECORD = bytes([23, 3, 3, 0, 4]) + b"seal"
FRAME = bytes([0, 0, 0, 4]) + b"same"


@pytest.mark.parametrize(
    ("data", "is_tls"),
    [
        (RECORD, True),
        (RECORD + RECORD[:5], True),
        (RECORD + FRAME, False),
        (RECORD + RECORD[:4], None),
        (RECORD[:8], None),
        (RECORD[:4], None),
        (FRAME + RECORD, False),
    ],
)
def test_a_record_is_followed_by_another_one_or_by_nothing(data: bytes, is_tls: bool | None) -> None:
    assert begins_with_record(data) is is_tls


def first_record(data: bytes) -> TlsRecord | None:
    """The first header in some bytes with its record, found by trying each place."""
    for at in range(len(data) - HEADER_SIZE + 1):
        reader = RecordReader(at)
        reader.push(data[at:])
        try:
            return reader.next()
        except BrokenRecordError:
            continue
    return None


@examples(200)
@given(st.lists(st.sampled_from([0, 1, 3, 5, 0x14, 0x17, 0x40, 0xFF]), max_size=30))
def test_a_record_is_found_wherever_it_begins(content: list[int]) -> None:
    reader = RecordReader(-1)
    reader.lose(1)
    reader.push(bytes(content))
    assert reader.next() == first_record(bytes(content))
