"""The decode stage without Spark: Kafka records in, one row per bucket out."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from decoders.frame.record import Kind, Record, pack
from streaming.judging.bucket_input import BucketInput, unpack_input
from streaming.query.partition_keys import bucket_of_key
from streaming.query.stages import TENTH, bucket_of, decode_stage
from tests.exchange import Exchange

BUCKETS = 8
Row = tuple[bytes | None, bytes | None]


def batch_of(rows: list[Row], first_offset: int = 100) -> pa.RecordBatch:
    keys, values = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(keys, pa.binary()),
            pa.array(values, pa.binary()),
            pa.array(["kipwatch.frames"] * len(rows)),
            pa.array([1] * len(rows), pa.int32()),
            pa.array(range(first_offset, first_offset + len(rows)), pa.int64()),
        ],
        names=["key", "value", "topic", "partition", "offset"],
    )


def decoded(*batches: pa.RecordBatch) -> list[dict[int, BucketInput]]:
    results = []
    for batch in decode_stage(BUCKETS)(iter(batches)):
        assert batch.schema.names == ["bucket", "input"]
        assert batch.schema.types == [pa.int32(), pa.binary()]
        buckets, rows = (column.to_pylist() for column in batch.columns)
        numbers = map(bucket_of_key, buckets)
        results.append(dict(zip(numbers, map(unpack_input, rows), strict=True)))
    return results


def records() -> list[Record]:
    exchange = Exchange()
    exchange.negotiate(client_id="app")
    for _ in range(20):
        exchange.respond(exchange.request("Metadata", 12, client_id="app"))
    return exchange.records


def on(connection: bytes, record: Record) -> Row:
    return connection, pack(dataclasses.replace(record, connection=connection))


def test_a_batch_becomes_a_row_for_each_of_its_buckets() -> None:
    """Two connections of one bucket share a row, and steady traffic folds."""
    one, two, three = (number.to_bytes(4) * 4 for number in (1, 1 + BUCKETS, 2))
    rows = [on(connection, record) for record in records() for connection in (one, two, three)]
    (inputs,) = decoded(batch_of(rows))
    assert inputs.keys() == {1, 2}
    assert [window.connection.id for window in inputs[1].windows()] == [one, two]
    (window,) = inputs[2].windows()
    assert window.connection.client == "10.0.0.1:40000" and window.connection.server == "10.0.0.2:9092"
    assert sum(seen.count for seen in window.observations) == len(records())
    assert len(window.observations) < 8
    assert inputs[1].unreadable == inputs[2].unreadable == 0


def test_an_unreadable_record_is_counted_and_affects_no_other() -> None:
    """It counts in the first bucket; the evidence of other records keeps their own offsets."""
    connection = (3).to_bytes(4) * 4
    good = [on(connection, record) for record in records()[:2]]
    foreign: list[Row] = [
        (b"key", b"not a frame"),
        (None, None),
        (b"", good[0][1][:-1] if good[0][1] else b""),
    ]
    (inputs,) = decoded(batch_of([good[0], *foreign, good[1]]))
    assert inputs[0].unreadable == 3
    assert inputs[0].said == []
    (window,) = inputs[3].windows()
    assert [seen.kind for seen in window.observations] == [Kind.OPENED, Kind.REQUEST]
    evidence = window.observations[1].evidence
    assert (evidence.source, evidence.partition, evidence.offset) == ("kipwatch.frames", 1, 104)
    assert evidence.beginning == records()[1].frame


def test_every_record_is_counted_once_at_its_own_time_of_capture() -> None:
    """In tenths of a second, although most are folded; one of the rows has the counts of all."""
    sent = records()
    connections = [number.to_bytes(4) * 4 for number in (1, 2)]
    (inputs,) = decoded(batch_of([on(connection, record) for record in sent for connection in connections]))
    expected = Counter(record.captured_at // TENTH for record in sent)
    (captured,) = [part.captured for part in inputs.values() if part.captured]
    assert captured == {tenth: 2 * count for tenth, count in expected.items()}


def test_each_arrow_batch_yields_one() -> None:
    rows = [on(b"\0" * 16, record) for record in records()]
    first, empty, second = decoded(batch_of(rows[:3]), batch_of(rows).slice(0, 0), batch_of(rows[3:]))
    assert (len(first), len(empty), len(second)) == (1, 0, 1)


@given(st.binary(min_size=16, max_size=16), st.integers(1, 1000))
def test_a_connection_has_one_bucket(connection: bytes, buckets: int) -> None:
    assert 0 <= bucket_of(connection, buckets) < buckets
    assert bucket_of(connection, buckets) == bucket_of(bytes(bytearray(connection)), buckets)
