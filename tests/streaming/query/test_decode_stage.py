"""The decode stage without Spark: blocks in, one row per bucket out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
import pyarrow as pa

from decoders.frame.record import Kind, Record
from expectations.conversation.observation import EVIDENCE_BYTES
from expectations.conversation.pseudonyms import Pseudonyms
from expectations.judging.terms import Terms
from streaming.judging.bucket_input import MOST_RECORDS, BucketInput, unpack_input
from streaming.judging.report import TENTH
from streaming.query.stage_rows import bucket_of_key
from streaming.query.stages import (
    COUNTING_BUCKET,
    decode_stage,
)
from tests.decoders.frame.columnar.batches import block
from tests.exchange import Exchange

BUCKETS = 8


def batch_of(values: Sequence[bytes | None], first_offset: int = 100) -> pa.RecordBatch:
    """Records of the topic, of which a block has a bytes value."""
    return pa.RecordBatch.from_arrays(
        [
            pa.array(values, pa.binary()),
            pa.array(["kipwatch.frames"] * len(values)),
            pa.array([1] * len(values), pa.int32()),
            pa.array(range(first_offset, first_offset + len(values)), pa.int64()),
        ],
        names=["value", "topic", "partition", "offset"],
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


def record_on(connection: bytes, record: Record) -> Record:
    return msgspec.structs.replace(record, connection=connection)


def test_a_batch_becomes_a_row_for_each_of_its_buckets() -> None:
    """Two connections of one bucket share a row, and steady traffic folds, in however many blocks it is."""
    one, two, three = (number.to_bytes(4) * 4 for number in (1, 1 + BUCKETS, 2))
    sent = [record_on(connection, record) for record in records() for connection in (one, two, three)]
    (inputs,) = decoded(batch_of([block(sent[:50]), block(sent[50:])]))
    assert inputs.keys() == {1, 2}
    assert [window.connection.id for window in inputs[1].columns().windows()] == [one, two]
    (window,) = inputs[2].columns().windows()
    assert window.connection.client == "10.0.0.1:40000" and window.connection.server == "10.0.0.2:9092"
    assert sum(seen.count for seen in window.observations) == len(records())
    assert len(window.observations) < 8
    assert inputs[1].unreadable == inputs[2].unreadable == 0
    assert inputs[1].blocks + inputs[2].blocks == 2


def test_a_record_that_is_no_block_is_counted_and_affects_no_other() -> None:
    """The report has the reason; the evidence of other records keeps their own places."""
    connection = (3).to_bytes(4) * 4
    first, second, third = (record_on(connection, record) for record in records()[:3])
    good = block([first])
    (inputs,) = decoded(batch_of([good, b"not a frame", None, good[:-9], block([second, third])]))
    assert inputs[3].unreadable == 3 and inputs[3].blocks == 5
    assert inputs[3].refusal.startswith("damaged: ")
    told = [(record.key, record.size, record.value) for record in inputs[3].quarantined]
    assert told == [
        ("kipwatch.frames/1/101", 11, b"not a frame"),
        ("kipwatch.frames/1/102", 0, b""),
        ("kipwatch.frames/1/103", len(good) - 9, good[:-9]),
    ]
    assert inputs[3].quarantined[2].reason == inputs[3].refusal
    (window,) = inputs[3].columns().windows()
    assert [seen.kind for seen in window.observations] == [Kind.OPENED, Kind.REQUEST, Kind.RESPONSE]
    evidence = window.observations[2].evidence
    assert (evidence.source, evidence.partition) == ("kipwatch.frames", 1)
    assert (evidence.offset, evidence.row) == (104, 1)
    assert evidence.beginning == records()[2].frame[:EVIDENCE_BYTES]


def test_nothing_but_foreign_records_is_counted_in_a_bucket_of_its_own() -> None:
    (inputs,) = decoded(batch_of([b"not a frame", None]))
    assert inputs.keys() == {COUNTING_BUCKET}
    assert inputs[0].unreadable == 2 and inputs[0].said is None


def test_of_many_foreign_records_a_bounded_part_is_passed_on() -> None:
    """Whatever the number of Arrow batches in a task."""
    values = [b"not a frame"] * MOST_RECORDS
    first, second = decoded(batch_of(values), batch_of(values))
    assert len(first[0].quarantined) == MOST_RECORDS and second[0].quarantined == []
    assert first[0].unreadable == second[0].unreadable == MOST_RECORDS


def test_with_pseudonyms_no_bytes_of_a_foreign_record_are_passed_on() -> None:
    terms = Terms(pseudonyms=Pseudonyms(b"k" * 32))
    (batch,) = decode_stage(BUCKETS, terms=terms)(iter([batch_of([b"a plain client ID"])]))
    (record,) = unpack_input(batch.column("input")[0].as_py()).quarantined
    assert (record.size, record.value) == (17, b"")


def test_every_record_is_counted_once_at_its_own_time_of_capture() -> None:
    """In tenths of a second, although most are folded; one of the rows has the counts of all."""
    sent = records()
    connections = [number.to_bytes(4) * 4 for number in (1, 2)]
    both = block([record_on(connection, record) for record in sent for connection in connections])
    (inputs,) = decoded(batch_of([both]))
    expected = Counter(record.captured_at // TENTH for record in sent)
    (captured,) = [part.captured for part in inputs.values() if part.captured]
    assert captured == {tenth: 2 * count for tenth, count in expected.items()}


def test_each_arrow_batch_yields_one() -> None:
    values = [block([record_on(bytes(16), record)]) for record in records()]
    first, empty, second = decoded(batch_of(values[:3]), batch_of(values).slice(0, 0), batch_of(values[3:]))
    assert (len(first), len(empty), len(second)) == (1, 0, 1)
