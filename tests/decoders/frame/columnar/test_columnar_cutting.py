"""Cutting columns keeps the same bytes as cutting records, whatever the frames."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from decoders.frame.columnar.cutting import ColumnarCutter
from decoders.frame.cutting import MAX_KEPT, cut
from decoders.frame.record import Kind, Record
from decoders.schema.registry import Api, default_schemas
from decoders.wire.columnar import frames
from decoders.wire.columnar.frames import joined
from tests.decoders.codec.samples import APIS
from tests.decoders.frame.columnar.batches import batch_of, record_of, traffic
from tests.examples import examples

SCHEMAS = default_schemas()
CUTTER = ColumnarCutter(SCHEMAS)
few_examples = examples(3, suppress_health_check=list(HealthCheck), database=None)


@pytest.mark.parametrize("api", [pytest.param(api, id=api.name) for api in APIS])
@few_examples
@given(data=st.data())
def test_the_same_is_kept_of_every_api(api: Api, data: st.DataObject) -> None:
    records = data.draw(traffic(api))
    assert list(CUTTER.cut(batch_of(records)).records()) == [cut(SCHEMAS, record) for record in records]


@few_examples
@given(st.lists(st.binary(max_size=12), min_size=1), st.integers(-2, 100))
def test_frames_too_short_for_an_api_key_are_cut_like_records(frames: list[bytes], key: int) -> None:
    records = [
        record_of(kind, number + 1, connection=bytes(16), frame=frame, true_length=12, paired_api_key=key)
        for number, frame in enumerate(frames)
        for kind in (Kind.REQUEST if number % 2 else Kind.RESPONSE,)
    ]
    assert list(CUTTER.cut(batch_of(records)).records()) == [cut(SCHEMAS, record) for record in records]


def test_a_frame_is_kept_as_far_as_it_may_be_at_most() -> None:
    frame = bytes((0, 3, 0, 12)) + bytes(2 * MAX_KEPT)
    record = record_of(Kind.REQUEST, 1, connection=bytes(16), frame=frame, true_length=len(frame))
    (kept,) = CUTTER.cut(batch_of([record])).records()
    assert kept == cut(SCHEMAS, record) and len(kept.frame) == MAX_KEPT


@few_examples
@given(traffic(APIS[0]), st.integers(1, 30), st.integers(1, 30))
def test_joined_batches_hold_the_same_records(records: list[Record], size: int, least: int) -> None:
    batches = [batch_of(records[at : at + size]) for at in range(0, len(records), size)]
    made = list(joined(batches, least))
    assert [record for batch in made for record in batch.records()] == records
    sizes = [len(batch.frames.starts) + len(batch.events) for batch in made]
    assert all(each >= least for each in sizes[:-1])


def test_large_frames_are_joined_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "ENOUGH", 10)
    records = [
        record_of(Kind.REQUEST, number + 1, connection=bytes(16), frame=b"\0\3\0\14ab", true_length=6)
        for number in range(5)
    ]
    made = list(joined([batch_of([record]) for record in records], 1_000))
    assert [len(batch.frames.starts) for batch in made] == [2, 2, 1]


def test_a_joined_batch_outlives_those_it_was_made_of() -> None:
    record = record_of(Kind.REQUEST, 1, connection=bytes(16), frame=b"\0\3\0\14abcdef", true_length=10)
    batch = batch_of([record])
    (made,) = joined([batch], 1)
    batch.data[:] = 0
    assert list(made.records()) == [msgspec.structs.replace(record)]
