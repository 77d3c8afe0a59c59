"""Envelopes unpacked as columns say what they say one by one."""

from __future__ import annotations

import dataclasses

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.frame.columnar.envelopes import unpack_columns
from decoders.frame.record import Closing, Direction, Kind, Pairing, Record, RecordError, pack, unpack
from tests.decoders.frame.test_record import RECORD, RECORDS
from tests.examples import examples

Row = tuple[bytes | None, bytes | None]
KEYS = st.sampled_from([b"a" * 16, b"b" * 16, b""])
CLOSED = {"closing": Closing.FIN}


def ordinary(record: Record, kind: Kind, same: Record) -> Record:
    """A frame of the same connection as another."""
    return dataclasses.replace(
        record,
        kind=kind,
        closing=Closing.NONE,
        run=same.run,
        client=same.client,
        server=same.server,
        cluster=same.cluster,
        feeder=same.feeder,
    )


FRAMES = st.builds(ordinary, RECORDS, st.sampled_from([Kind.REQUEST, Kind.RESPONSE]), st.just(RECORD))
VALUES = (FRAMES | FRAMES | FRAMES | RECORDS).map(pack)


@st.composite
def changed(draw: st.DrawFn) -> bytes:
    value = bytearray(draw(VALUES))
    at = draw(st.integers(0, len(value) - 1))
    value[at] = draw(st.integers(0, 255))
    return bytes(value[: draw(st.integers(0, len(value)) | st.just(len(value)))])


def one_by_one(rows: list[Row]) -> tuple[dict[int, Record], int]:
    records: dict[int, Record] = {}
    for row, (key, value) in enumerate(rows):
        try:
            records[row] = unpack(key or b"", value or b"")
        except RecordError:
            continue
    return records, len(rows) - len(records)


@pytest.mark.slow
@examples(150)
@given(st.lists(st.tuples(st.none() | KEYS, st.none() | VALUES | changed()), max_size=12), st.integers(0, 3))
def test_columns_hold_what_is_unpacked_one_by_one(rows: list[Row], skipped: int) -> None:
    columns = [pa.array([row[at] for row in rows], pa.binary()).slice(skipped) for at in (0, 1)]
    unpacked = unpack_columns(*columns)
    batch = unpacked.batch
    records = [batch.record(number) for number in range(len(batch.frames.starts))]
    found = dict(zip(unpacked.rows.tolist(), [*records, *batch.events], strict=True))
    expected, unreadable = one_by_one(rows[skipped:])
    assert found == {row: as_one_of(record, found, row) for row, record in expected.items()}
    assert unpacked.unreadable == unreadable


def as_one_of(record: Record, found: dict[int, Record], row: int) -> Record:
    """The record itself: columns describe a frame completely."""
    assert type(found[row].kind) is Kind
    return record


def test_a_frame_that_claims_another_identity_keeps_it() -> None:
    """It is not an ordinary frame, so it is one of the events."""
    frame = dataclasses.replace(RECORD, kind=Kind.REQUEST, direction=Direction.TO_BROKER)
    other = dataclasses.replace(frame, run=frame.run + 1, sequence=2, pairing=Pairing.NONE)
    values = pa.array([pack(frame), pack(other)], pa.binary())
    unpacked = unpack_columns(pa.array([bytes(16)] * 2, pa.binary()), values)
    assert list(unpacked.batch.records()) == [frame, other]
    assert unpacked.batch.events == [other]
