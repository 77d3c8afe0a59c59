"""Records written as blocks are read back unchanged, and other bytes are refused with one line."""

from __future__ import annotations

import re
from collections import defaultdict
from random import Random
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from decoders.frame.columnar import block_reading, block_writing
from decoders.frame.columnar.block import (
    COLUMNS,
    MOST_FRAMES,
    ROW_BYTES,
    SCHEMA,
    SPEAKER_BYTES,
    BlockError,
    headers_of,
)
from decoders.frame.columnar.block_reading import BlockBatch, BlockReader, read_block
from decoders.frame.columnar.block_writing import Block, BlockWriter
from decoders.frame.columnar.speakers import partition_of
from decoders.frame.record import NO_RECORD, Closing, Direction, Endpoint, Flag, Kind, Pairing, Record
from decoders.wire.columnar.frames import batch_of
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.segment import SocketAddress
from tests.decoders.frame.columnar.batches import block, record_of
from tests.decoders.wire.columnar.equality import batches_of, interleaved, packets_between
from tests.decoders.wire.conversation import EVENTS, SERVER, new_columnar_tracker
from tests.examples import examples
from tests.repository.tree import ROOT

PORTS = st.integers(0, 0xFFFF)
ENDPOINTS = st.builds(lambda address, port: Endpoint.of(address.packed, port), st.ip_addresses(), PORTS)
NAMES = st.text(st.characters(codec="utf-8"), max_size=6)
UINT64, UINT62 = st.integers(0, (1 << 64) - 1), st.integers(0, (1 << 62) - 1)
INT16 = st.integers(-(1 << 15), (1 << 15) - 1)
RECORDS = st.builds(
    Record,
    kind=st.sampled_from(Kind),
    connection=st.sampled_from([b"a" * 16, b"b" * 16, bytes(16)]),
    run=UINT64,
    sequence=UINT62,
    captured_at=UINT62,
    client=ENDPOINTS,
    server=ENDPOINTS,
    cluster=NAMES,
    feeder=NAMES,
    direction=st.sampled_from(Direction),
    pairing=st.sampled_from(Pairing),
    closing=st.sampled_from(Closing),
    flags=st.integers(0, 31).map(Flag),
    paired_sequence=UINT62,
    paired_api_key=INT16,
    paired_api_version=INT16,
    position=UINT62,
    true_length=st.integers(0, (1 << 40) - 1),
    frame=st.binary(max_size=64),
)
CHANGES = st.builds(
    Record,
    kind=st.sampled_from((Kind.OPENED, Kind.CLOSED)),
    connection=st.sampled_from([b"a" * 16, b"b" * 16]),
    run=st.just(1),
    sequence=UINT62,
    captured_at=UINT62,
    client=st.just(Endpoint("10.0.0.7:1")),
    server=st.just(Endpoint("10.0.0.8:9092")),
    direction=st.sampled_from(Direction),
    pairing=st.just(Pairing.NONE) | st.sampled_from(Pairing),
    closing=st.sampled_from(Closing),
    flags=st.just(Flag.NONE) | st.sampled_from(Flag),
    paired_sequence=st.just(NO_RECORD) | UINT62,
    paired_api_key=st.just(-1) | INT16,
    paired_api_version=st.just(-1) | INT16,
    position=UINT62,
    true_length=st.just(0) | st.just(7),
    frame=st.just(b"") | st.just(b"content"),
)
"""Openings and closings, of which many say no more than that, and others nearly so."""
FRAMES = {Kind.REQUEST, Kind.RESPONSE}
REQUEST = record_of(Kind.REQUEST, 1, connection=bytes(16), frame=b"request", true_length=7)
BLOCK = block([REQUEST, record_of(Kind.CLOSED, 2, connection=bytes(16))])


def told(record: Record, before: dict[bytes, Record]) -> Record:
    """The record as a feeder can make it: frames close nothing, and speak on one connection of their ID.

    None is paired with itself.
    """
    if record.paired_sequence == record.sequence:
        record = msgspec.structs.replace(record, paired_sequence=NO_RECORD)
    if record.kind not in FRAMES:
        return record
    first = before.setdefault(record.connection, record)
    shared = {name: getattr(first, name) for name in ("run", "client", "server", "cluster", "feeder")}
    return msgspec.structs.replace(record, closing=Closing.NONE, **shared)


@examples(150)
@given(st.lists(RECORDS | CHANGES, min_size=1, max_size=12))
def test_what_is_written_comes_back(given_records: list[Record]) -> None:
    """Every field and its type, in any order; an event may state another identity of its connection."""
    known: dict[bytes, Record] = {}
    records = [told(record, known) for record in given_records]
    found = list(read_block(block(records)))
    assert found == records
    for record, wanted in zip(found, records, strict=True):
        assert [type(getattr(record, name)) for name in Record.__struct_fields__] == [
            type(getattr(wanted, name)) for name in Record.__struct_fields__
        ]


@given(
    st.integers(0, 1_000_000_000).map(Random),
    st.lists(st.integers(0, 10_000), max_size=6),
    st.sampled_from([7, 100, 60_000]),
    st.floats(0, 0.2),
    st.sampled_from([(3, 500, 100), (4_096, 900, 1), (2, 1_000_000, 2), (100, 500, 100)]),
)
@examples(30, suppress_health_check=list(HealthCheck))
def test_every_batch_of_a_tracker_is_cut_into_blocks_within_their_limits(
    random: Random, cuts: list[int], size: int, loss: float, limits: tuple[int, int, int]
) -> None:
    """Each record is in one block, in the partition of its connection, and in order there."""
    addresses = (b"\x0a\0\0\1", bytes(15) + b"\1")
    clients = [SocketAddress(random.choice(addresses), 40_000 + number) for number in range(3)]
    conversations = [
        packets_between(EVENTS, client, SocketAddress(client.address, SERVER.port), segment=size)
        for client in clients
    ]
    packets = [packet for packet in interleaved(conversations, random) if random.random() >= loss]
    tracker = new_columnar_tracker(cluster="orders", feeder="rack-1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block_writing, "MOST_FRAMES", limits[0])
        patch.setattr(block_writing, "MOST_BYTES", limits[1])
        patch.setattr(block_writing, "MOST_SPEAKERS", limits[2])
        writer = BlockWriter(3)
    partitions: defaultdict[int, list[Record]] = defaultdict(list)
    wanted: defaultdict[int, list[Record]] = defaultdict(list)
    for part in batches_of(packets, cuts):
        batch = tracker.feed(PacketBatch.of(part))
        made = writer.add(batch)
        for record in batch.records():
            wanted[partition_of(record.connection, 3)].append(record)
        if random.random() < 0.3:
            made += writer.take(np.array([True, False, True]))
        collect(made, limits, partitions)
    assert writer.rows == sum(map(len, wanted.values())) - sum(map(len, partitions.values()))
    collect(writer.take(), limits, partitions)
    assert partitions == wanted and writer.rows == writer.bytes == 0


def collect(made: list[Block], limits: tuple[int, int, int], partitions: dict[int, list[Record]]) -> None:
    for each in made:
        held = list(read_block(each.value))
        assert 0 < each.rows == len(held) <= limits[0]
        speakers = len({record.connection for record in held})
        taken = sum(len(record.frame) + ROW_BYTES for record in held) + speakers * SPEAKER_BYTES
        assert len(held) == 1 or taken <= limits[1]
        partitions[each.partition] += held


def test_a_block_is_full_before_the_next_one_of_its_partition_begins() -> None:
    writer = BlockWriter(2)
    made = []
    for number in range(1, 4_098):
        made += writer.add(
            batch_of(record_of(Kind.REQUEST, number, connection=bytes(16), frame=b"x", true_length=1))
        )
    made += writer.take()
    assert [(each.partition, each.rows) for each in made] == [(0, 4_096), (0, 1)]


@pytest.mark.parametrize("rows_of_a_connection", [1, 7, 1_000])
@pytest.mark.parametrize("length", [0, 70, 180, 5_000])
def test_kafka_takes_a_full_block_of_which_nothing_can_be_compressed(
    rows_of_a_connection: int, length: int
) -> None:
    random, writer = Random(length), BlockWriter(1)
    made: list[Block] = []
    while not made:
        connection, run = random.randbytes(16), random.getrandbits(62)
        client = Endpoint(f"[{random.randbytes(16).hex(':', 2)}]:65535")
        for _ in range(rows_of_a_connection):
            numbers = {name: random.getrandbits(61) for name in ("captured_at", "position", "true_length")}
            paired = {"paired_sequence": random.getrandbits(61), "paired_api_key": random.getrandbits(15)}
            sequence, frame = random.getrandbits(61), random.randbytes(length)
            record = record_of(Kind.REQUEST, sequence, connection=connection, frame=frame, **paired)
            record = msgspec.structs.replace(record, client=client, run=run, **numbers)
            made += writer.add(batch_of(record))
    full = made[0]
    assert len(full.value) < 999_000
    assert len(full.value) > 850_000 or full.rows == MOST_FRAMES


def test_headers_tell_the_version_and_the_number_of_rows() -> None:
    assert headers_of(4_096) == [("kipwatch-block", b"2"), ("kipwatch-frames", b"4096")]


def test_others_read_it_as_a_table_of_arrow() -> None:
    table = pa.ipc.open_stream(BLOCK).read_all()
    assert table.column_names == list(COLUMNS)
    first = table.slice(0, 1).to_pylist()[0]
    assert first["connection"] == {"id": bytes(16), "client": "10.0.0.1:40000"}
    assert (first["server"], first["frame"], first["kind"]) == ("10.0.0.2:9092", b"request", 1)


def test_the_page_about_the_topic_describes_every_column_and_number() -> None:
    page = (ROOT / "docs" / "frames-topic.md").read_text()
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row[0])} == set(COLUMNS)
    told = {row[0].strip("| `"): dict(re.findall(r"(\d+) ([a-zA-Z ]+)", row[2])) for row in rows}
    for name, numbers in (
        ("kind", Kind),
        ("direction", Direction),
        ("pairing", Pairing),
        ("closing", Closing),
    ):
        assert set(told[name]) == {str(each.value) for each in numbers if each}


def all_records(found: list[BlockBatch]) -> list[Record]:
    return [record for each in found for record in each.batch.records()]


def test_values_that_are_no_blocks_are_refused_and_affect_no_other() -> None:
    """The old format is refused, too: an envelope of 146 bytes, then the frame."""
    old = bytes([1, int(Kind.REQUEST)]) + bytes(144) + b"frame"
    (found,) = BlockReader().read([BLOCK, old, None, b"", BLOCK[:-200], BLOCK])
    assert len(all_records([found])) == 4
    assert found.blocks.tolist() == [0, 5, 0, 5] and found.rows.tolist() == [0, 0, 1, 1]
    assert found.refused.keys() == {1, 2, 3, 4} and found.size == 6
    assert found.refused[1] == "no Arrow IPC stream"


def test_blocks_are_read_into_batches_of_bounded_size() -> None:
    """Numbers of values continue from batch to batch."""
    found = list(BlockReader().read([BLOCK] * 5, enough=4))
    assert [each.blocks.tolist() for each in found] == [[0, 1, 0, 1], [2, 3, 2, 3], [4, 4]]
    assert [each.size for each in found] == [2, 2, 1]


def test_blocks_of_much_content_are_read_into_batches_of_bounded_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seven megabytes of zeros are a block of a few thousand bytes, and a batch of Spark has thousands."""
    assert block_reading.ENOUGH_BYTES <= 128 << 20
    monkeypatch.setattr(block_reading, "ENOUGH_BYTES", 1 << 20)
    zeros = block([msgspec.structs.replace(REQUEST, frame=bytes(700_000), true_length=700_000)])
    assert len(zeros) < 10_000
    assert [found.size for found in BlockReader().read([zeros] * 5)] == [2, 2, 1]


def test_that_a_frame_was_read_whole_is_believed_of_a_feeder_with_equal_schemas() -> None:
    flagged = msgspec.structs.replace(REQUEST, flags=Flag.SETTLED | Flag.READ_WHOLE)
    writer = BlockWriter(1, "digest")
    writer.add(batch_of(flagged))
    (made,) = writer.take()
    for own, flags in (("digest", flagged.flags), ("other", Flag.SETTLED), ("", Flag.SETTLED)):
        (found,) = BlockReader(own).read([made.value])
        assert [each.flags for each in all_records([found])] == [flags]


OPENED = record_of(Kind.OPENED, 1, connection=bytes(16))
CLOSED = msgspec.structs.replace(OPENED, sequence=9, kind=Kind.CLOSED, closing=Closing.FIN)


@pytest.mark.parametrize(
    "more",
    [
        {"flags": Flag.MID_STREAM},
        {"pairing": Pairing.UNOWED},
        {"direction": Direction.TO_CLIENT},
        {"closing": Closing.FIN},
        {"paired_sequence": 1},
        {"paired_api_key": 18},
        {"paired_api_version": 0},
        {"true_length": 7},
        {"frame": b"content"},
        {"run": 2},
        {"client": Endpoint("10.0.0.9:1")},
    ],
)
def test_openings_and_closings_stay_columns_unless_they_say_more(more: dict[str, Any]) -> None:
    other = msgspec.structs.replace(OPENED, sequence=2, **more)
    (found,) = BlockReader().read([block([OPENED, other, CLOSED])])
    assert found.batch.events.changes.sequences.tolist() == [1, 9]
    assert found.batch.events.others == [other]
    assert all_records([found]) == [OPENED, other, CLOSED]


def test_a_connection_that_a_dictionary_names_twice_is_one() -> None:
    """A feeder names it with one client."""
    closed = record_of(Kind.CLOSED, 2, connection=bytes(16))
    other = msgspec.structs.replace(closed, client=Endpoint("10.0.0.9:1"))
    (found,) = BlockReader().read([block([REQUEST, other])])
    assert all_records([found]) == [REQUEST, other]
    assert [opening.client for opening in found.batch.openings] == [REQUEST.client]


def test_a_frame_that_claims_another_identity_keeps_it() -> None:
    """In a later block, or one read later: it is not an ordinary frame of that connection."""
    other = msgspec.structs.replace(REQUEST, run=2, sequence=2)
    reader = BlockReader()
    (found,) = reader.read([block([REQUEST]), block([other])])
    assert all_records([found]) == [REQUEST, other] and list(found.batch.events) == [other]
    (later,) = reader.read([block([other])])
    assert all_records([later]) == [other] and not later.batch.events


@examples(200)
@given(st.data())
def test_a_changed_block_is_read_or_refused_but_never_anything_else(data: st.DataObject) -> None:
    value = bytearray(BLOCK)
    for at in data.draw(st.lists(st.integers(0, len(value) - 1), max_size=4)):
        value[at] = data.draw(st.integers(0, 255))
    value = value[: data.draw(st.integers(0, len(value)) | st.just(len(value)))]
    try:
        assert all(isinstance(record, Record) for record in read_block(bytes(value)))
    except BlockError as error:
        assert "\n" not in str(error)


@given(st.binary(max_size=200))
def test_foreign_bytes_are_no_block(value: bytes) -> None:
    for start in (b"", b"\xff\xff\xff\xff", BLOCK[:300]):
        with pytest.raises(BlockError):
            list(read_block(start + value))


def written(schema: pa.Schema, batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, schema, options=options) as stream:
        stream.write_batch(batch)
    value: bytes = sink.getvalue().to_pybytes()
    return value


def with_column(name: str, column: Any) -> bytes:
    """A block of one request with another column."""
    batch = pa.ipc.open_stream(block([REQUEST])).read_next_batch()
    columns = [column if each == name else batch.column(each) for each in COLUMNS]
    fields = [pa.field(each, part.type, nullable=False) for each, part in zip(COLUMNS, columns, strict=True)]
    schema = pa.schema(fields, metadata=SCHEMA.metadata)
    return written(schema, pa.RecordBatch.from_arrays(columns, schema=schema))


def dictionary(value: str | None) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0], pa.int16()), pa.array([value], pa.utf8()))


@pytest.mark.parametrize(
    ("name", "column", "line"),
    [
        ("kind", pa.array([99], pa.uint8()), "an unknown kind"),
        ("kind", pa.array([0], pa.uint8()), "an unknown kind"),
        ("pairing", pa.array([9], pa.uint8()), "an unknown pairing"),
        ("closing", pa.array([9], pa.uint8()), "an unknown closing"),
        ("kind", pa.array([1], pa.int64()), "a block with other columns"),
        ("flags", pa.array([None], pa.uint8()), "damaged: a value is missing"),
        ("server", dictionary(None), "damaged: a name is missing"),
        ("server", dictionary("nowhere"), "a client or server that is no address and port"),
        ("server", dictionary("10.0.0.1:099"), "a client or server that is no address and port"),
        ("server", dictionary("10.0.0.1:65536"), "a client or server that is no address and port"),
        ("server", dictionary("10.0.0.1:-1"), "a client or server that is no address and port"),
        ("sequence_step", pa.array([-1], pa.int64()), "a sequence that no feeder writes"),
        ("paired_distance", pa.array([9], pa.int64()), "a paired_sequence that no feeder writes"),
        ("captured_at", pa.array([-1], pa.timestamp("ns", "UTC")), "a captured_at that no feeder writes"),
        ("captured_at", pa.array([1 << 62], pa.timestamp("ns", "UTC")), "a captured_at that no feeder"),
        ("position_step", pa.array([-1], pa.int64()), "a position that no feeder writes"),
        ("true_length", pa.array([1 << 40], pa.int64()), "a true_length that no feeder writes"),
        ("cluster", dictionary("x" * 25), "a name that is too long"),
        ("frame", pa.array([bytes(9_000_000)], pa.binary()), "it declares 90[0-9]+ bytes of columns"),
    ],
)
def test_what_no_feeder_writes_is_refused(name: str, column: Any, line: str) -> None:
    with pytest.raises(BlockError, match=line):
        list(read_block(with_column(name, column)))


def test_a_version_that_is_not_known_is_refused_by_its_name() -> None:
    batch = pa.ipc.open_stream(BLOCK).read_next_batch()
    schema = SCHEMA.with_metadata({"kipwatch-block": "1"})
    with pytest.raises(BlockError, match=r"a block of version '1'; this kipwatch reads version 2"):
        list(read_block(written(schema, batch.replace_schema_metadata(schema.metadata))))
    with pytest.raises(BlockError, match="no block of kipwatch"):
        list(read_block(written(SCHEMA.remove_metadata(), batch.replace_schema_metadata(None))))


def test_a_small_record_that_declares_much_is_refused_before_it_is_opened() -> None:
    """A gigabyte of zeros compresses to a few bytes, and rows of nothing to none."""
    rows = 5_000
    batch = pa.ipc.open_stream(block([REQUEST])).read_next_batch()
    many = batch.take(pa.array(np.zeros(rows, np.int64)))
    with pytest.raises(BlockError, match="it declares 5000 rows"):
        list(read_block(written(SCHEMA, many)))
    size = BLOCK.rfind(b"\x04\x22\x4d\x18", 0, BLOCK.index(b"request")) - 8
    assert BLOCK[size : size + 8] == (7).to_bytes(8, "little")
    bomb = BLOCK[:size] + (1 << 40).to_bytes(8, "little") + BLOCK[size + 8 :]
    with pytest.raises(BlockError, match=r"it declares 1099511\d+ bytes"):
        list(read_block(bomb))


def test_a_stream_of_two_batches_is_no_block() -> None:
    batch = pa.ipc.open_stream(BLOCK).read_next_batch()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as stream:
        stream.write_batch(batch)
        stream.write_batch(batch)
    with pytest.raises(BlockError, match="not the messages of one record batch"):
        list(read_block(sink.getvalue().to_pybytes()))
