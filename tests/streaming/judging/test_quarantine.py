"""The quarantine passes on a bounded part of what cannot be read."""

from __future__ import annotations

from streaming.judging.quarantine import (
    LONGEST_REASON,
    LONGEST_VALUE,
    MOST_BYTES,
    MOST_RECORDS,
    Quarantine,
    Quarantined,
)


def admitted(quarantine: Quarantine, *values: bytes | None, reason: str = "damaged") -> list[Quarantined]:
    found = (
        quarantine.admit("frames", 1, offset, reason, value) for offset, value in enumerate(values, start=7)
    )
    return [record for record in found if record is not None]


def test_a_record_is_kept_whole_with_its_place_and_reason() -> None:
    (record, empty) = admitted(Quarantine(keeps_values=True), b"poison", None)
    assert record == Quarantined("frames", 1, 7, "damaged", 6, b"poison")
    assert record.key == "frames/1/7"
    assert (empty.size, empty.value) == (0, b"")


def test_the_number_of_records_is_bounded() -> None:
    assert len(admitted(Quarantine(keeps_values=True), *[b"x"] * (MOST_RECORDS + 5))) == MOST_RECORDS


def test_the_bytes_are_bounded_and_the_size_is_told() -> None:
    """Also those of one record, whose beginning is kept then."""
    records = admitted(Quarantine(keeps_values=True), *[bytes(LONGEST_VALUE + 1)] * 3)
    assert [record.size for record in records] == [LONGEST_VALUE + 1] * 3
    assert [len(record.value) for record in records] == [LONGEST_VALUE, MOST_BYTES - LONGEST_VALUE, 0]


def test_a_reason_that_a_stranger_wrote_is_cut() -> None:
    (record,) = admitted(Quarantine(keeps_values=True), b"x", reason="r" * 10_000)
    assert len(record.reason) == LONGEST_REASON


def test_where_identities_are_pseudonyms_no_bytes_are_kept() -> None:
    (record,) = admitted(Quarantine(keeps_values=False), b"a plain client ID")
    assert (record.size, record.value, record.key) == (17, b"", "frames/1/7")
