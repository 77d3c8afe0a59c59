"""How many records may have been lost follows from the bytes that were lost, and from nothing else."""

from __future__ import annotations

from decoders.tls.protection import TAG_SIZE
from decoders.tls.records import HEADER_SIZE
from decoders.wire.chunk import Chunk
from decoders.wire.record_stream import RecordStream

RECORD = b"\x17\x03\x03" + (TAG_SIZE + 1).to_bytes(2) + bytes(TAG_SIZE + 1)


def push(stream: RecordStream, payload: bytes) -> None:
    stream.add(Chunk(stream.read_until, payload, 0, 0, 0, starts_segment=True))


def accept_next(stream: RecordStream) -> None:
    record = stream.next()
    assert record is not None
    stream.accept(record)
    stream.forget(record.end)


def lose(stream: RecordStream, records: int) -> int:
    """Lose the bytes of so many records, and return how many may have been lost."""
    stream.lose(records * len(RECORD))
    stream.take_dropped()
    return stream.max_lost_records


def test_bytes_without_a_record_count_until_the_next_record_only() -> None:
    stream = RecordStream()
    assert lose(stream, 2) == 3
    rest = bytes(5 * len(RECORD))
    push(stream, rest + RECORD)
    assert stream.next() is not None
    assert stream.max_lost_records == 8
    accept_next(stream)
    assert stream.take_dropped() == len(rest)
    assert lose(stream, 1) == 2


def test_bytes_that_are_lost_one_after_the_other_are_added_up() -> None:
    stream = RecordStream()
    assert lose(stream, 1) == 2
    push(stream, bytes(len(RECORD) + HEADER_SIZE - 1))
    assert stream.next() is None
    assert stream.take_dropped() == len(RECORD)
    assert lose(stream, 1) == 4


def test_a_record_that_was_begun_counts_as_lost() -> None:
    stream = RecordStream()
    push(stream, RECORD + RECORD[:-1])
    accept_next(stream)
    assert stream.take_dropped() == 0
    stream.lose(1)
    assert stream.take_dropped() == len(RECORD) - 1
    assert stream.max_lost_records == 2
