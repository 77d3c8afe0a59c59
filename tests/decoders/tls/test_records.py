"""When bytes are TLS records: each ends where the bytes end, or where another one begins."""

from __future__ import annotations

import pytest

from decoders.tls.records import begins_with_record

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
