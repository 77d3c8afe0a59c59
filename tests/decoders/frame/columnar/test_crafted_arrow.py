"""Arrow messages that no Arrow writer makes: they are read or refused, and take little memory."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.frame.columnar.block import COLUMNS, ID_BYTES, MOST_FRAMES, MOST_MEMORY, SCHEMA, BlockError
from decoders.frame.columnar.block_reading import read_block
from decoders.frame.record import Kind, Record
from tests.decoders.frame.columnar.batches import block, record_of
from tests.examples import examples

V4: Final = pa.ipc.MetadataVersion.V4
RECORDS: Final = [
    record_of(Kind.REQUEST, 1, connection=b"a" * 16, frame=b"request", true_length=7),
    record_of(Kind.REQUEST, 2, connection=b"b" * 16, frame=b"other", true_length=5),
    record_of(Kind.CLOSED, 3, connection=b"a" * 16),
]
BATCH: Final = pa.ipc.open_stream(block(RECORDS)).read_next_batch()
MASKS: Final = (0x01, 0x80, 0xFF)
_PREFIX: Final = 8
"""Bytes before the metadata of a message: a marker and the size of the metadata."""


def written(batch: pa.RecordBatch, metadata: dict[str, str] | None = None, **options: Any) -> bytes:
    """A batch as a stream of Arrow; `metadata` is that of its message."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA, options=pa.ipc.IpcWriteOptions(**options)) as stream:
        stream.write_batch(batch, custom_metadata=metadata)
    value: bytes = sink.getvalue().to_pybytes()
    return value


def places_of_metadata(value: bytes) -> Iterator[range]:
    """The places of the messages' metadata."""
    at = 0
    for message in pa.ipc.MessageReader.open_stream(value):
        (size,) = struct.unpack_from("<i", value, at + 4)
        yield range(at + _PREFIX, at + _PREFIX + size)
        at += _PREFIX + size + (message.body.size if message.body else 0)


def read(value: bytes) -> list[Record]:
    """The records of a block; none if it is refused, with a reason of one line."""
    try:
        return list(read_block(value))
    except BlockError as error:
        assert "\n" not in str(error)
        return []


@pytest.mark.parametrize("compression", ["lz4", None])
def test_any_changed_byte_of_metadata_leaves_a_block_or_none(compression: str | None) -> None:
    """False lengths, offsets, counts and types, one at a time."""
    whole = written(BATCH, compression=compression)
    assert read(whole) == RECORDS
    outcomes = set()
    for place in places_of_metadata(whole):
        for at in place:
            for mask in MASKS:
                value = bytearray(whole)
                value[at] ^= mask
                outcomes.add(len(read(bytes(value))))
    assert {0, len(RECORDS)} <= outcomes


def without_compression(value: bytes) -> bytes:
    """A stream whose last message does not say that it is compressed where that is said today."""
    *_, place = places_of_metadata(value)
    changed, layout = bytearray(value), struct.Struct("<i")

    def target(at: int) -> int:
        return int(at + layout.unpack_from(value, at)[0])

    def field(table: int, number: int) -> int:
        return table - int(layout.unpack_from(value, table)[0]) + 4 + 2 * number

    message = target(place.start)
    header = target(message + int.from_bytes(value[field(message, 2) :][:2], "little"))
    slot = field(header, 3)
    assert any(value[slot : slot + 2])
    changed[slot : slot + 2] = bytes(2)
    return bytes(changed)


def test_sizes_are_found_however_a_message_says_that_it_is_compressed() -> None:
    """Messages of Arrow 0.17 say so in metadata of their own; a few kilobytes could take all memory."""
    size = 2 * MOST_MEMORY
    columns = [
        pa.array([bytes(size)], pa.binary()) if name == "frame" else BATCH.column(name)[:1]
        for name in COLUMNS
    ]
    bomb = written(
        pa.RecordBatch.from_arrays(columns, schema=SCHEMA),
        {"ARROW:experimental_compression": "zstd"},
        compression="zstd",
        metadata_version=V4,
    )
    assert len(bomb) < size // 1_000
    bomb = without_compression(bomb)
    assert len(pa.ipc.open_stream(bomb).read_next_batch()["frame"][0].as_py()) == size
    with pytest.raises(BlockError, match="not of version 5 of Arrow's metadata"):
        list(read_block(bomb))


@pytest.mark.parametrize("more", [1, 2, 3, 4, 5])
def test_offsets_may_be_followed_by_any_number_of_bytes(more: int) -> None:
    whole = written(BATCH)
    offsets = struct.pack("<q", 4 * (len(RECORDS) + 1))
    *_, place = places_of_metadata(whole)
    at = whole.rindex(offsets, place.start, place.stop)
    changed = whole[:at] + struct.pack("<q", 4 * (len(RECORDS) + 1) + more) + whole[at + 8 :]
    assert list(read_block(changed)) == RECORDS


def with_dictionary(name: str, values: pa.Array) -> pa.RecordBatch:
    column = pa.DictionaryArray.from_arrays(BATCH.column(name).indices, values)
    columns = [column if each == name else BATCH.column(each) for each in COLUMNS]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


@pytest.mark.parametrize("name", ["server", "cluster", "feeder"])
def test_dictionaries_have_no_more_values_than_a_block_has_rows(name: str) -> None:
    """A few kilobytes of lz4 hold hundreds of thousands of names, each of which becomes an object."""
    (value,) = BATCH.column(name).dictionary.to_pylist()
    most = pa.array([value] * MOST_FRAMES)
    assert list(read_block(written(with_dictionary(name, most), compression="lz4"))) == RECORDS
    with pytest.raises(BlockError, match=f"a dictionary of {MOST_FRAMES + 1} values for {name}"):
        list(read_block(written(with_dictionary(name, pa.array([value] * (MOST_FRAMES + 1))))))


NUMBERS: Final = st.sampled_from([0, 1, 2, 3, 7, 255, 32_767, (1 << 31) - 1, (1 << 62) - 1, (1 << 63) - 1])
ENDPOINTS: Final = st.sampled_from(["10.0.0.1:40000", "[::1]:0", "10.0.0.1:4", "", "x:1", "[::1%1]:1"])
NAMES: Final = st.text(max_size=30) | st.just("orders")


def _numbers(type_: pa.DataType, rows: int) -> st.SearchStrategy[pa.Array]:
    def fitted(number: int) -> int:
        width, is_signed = type_.bit_width, pa.types.is_signed_integer(type_)
        number %= 1 << width
        return number - (1 << width) if is_signed and number >> (width - 1) else number

    numbers = st.lists(NUMBERS | NUMBERS.map(int.__neg__), min_size=rows, max_size=rows)
    return numbers.map(lambda listed: pa.array(map(fitted, listed), type_))


def _dictionary(values: st.SearchStrategy[pa.Array], rows: int) -> st.SearchStrategy[pa.Array]:
    """Indexes that may lie outside the dictionary."""
    indexes = st.lists(st.integers(0, 2) | st.sampled_from([-1, 3, 32_767]), min_size=rows, max_size=rows)
    return st.builds(
        lambda places, told: pa.DictionaryArray.from_arrays(pa.array(places, pa.int16()), told, safe=False),
        indexes,
        values,
    )


def _column(name: str, rows: int) -> st.SearchStrategy[pa.Array]:
    type_ = COLUMNS[name]
    if name == "frame":
        return st.lists(st.binary(max_size=20), min_size=rows, max_size=rows).map(
            lambda told: pa.array(told, type_)
        )
    if name == "captured_at":
        return _numbers(pa.int64(), rows).map(lambda numbers: numbers.cast(type_))
    if name == "connection":
        ids, clients = (
            st.lists(st.binary(min_size=ID_BYTES, max_size=ID_BYTES), min_size=3, max_size=3),
            ENDPOINTS,
        )
        speakers = st.builds(
            lambda told, client: pa.array(
                [{"id": each, "client": client} for each in told], type_.value_type
            ),
            ids,
            clients,
        )
        return _dictionary(speakers, rows)
    if pa.types.is_dictionary(type_):
        texts = ENDPOINTS if name == "server" else NAMES
        listed = st.lists(texts | st.none(), max_size=4) | st.lists(texts, min_size=3, max_size=3)
        return _dictionary(listed.map(lambda told: pa.array(told, pa.utf8())), rows)
    return _numbers(type_, rows)


@examples(300)
@given(st.data(), st.integers(0, 4), st.sampled_from(["lz4", "zstd", None]))
def test_columns_of_whatever_values_are_a_block_or_none(
    data: st.DataObject, rows: int, compression: str | None
) -> None:
    """Steps that overflow, codes of no value, kinds of nothing: at most three columns are wrong."""
    wrong = data.draw(st.sets(st.sampled_from(sorted(COLUMNS)), max_size=3))
    right = BATCH.slice(0, rows)
    rows = right.num_rows
    columns = [data.draw(_column(name, rows)) if name in wrong else right.column(name) for name in COLUMNS]
    batch = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
    for record in read(written(batch, compression=compression)):
        assert 0 <= record.sequence < 1 << 62 and 0 <= record.position < 1 << 62
        assert 0 <= record.paired_sequence < 1 << 62 and 0 <= record.captured_at < 1 << 62
