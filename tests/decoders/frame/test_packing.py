"""Frames packed from columns equal what `pack` makes of their records, in the same order."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from decoders.frame.columnar.packing import PackedFrames
from decoders.frame.record import Record, pack
from decoders.wire.columnar.frames import FrameBatch
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.columnar.tracker import ColumnarTracker
from decoders.wire.segment import SocketAddress
from tests.decoders.wire.columnar.equality import batches_of, interleaved, packets_between
from tests.decoders.wire.conversation import EVENTS, SCHEMAS, SERVER
from tests.examples import examples

ADDRESSES = (b"\x0a\0\0\1", bytes(15) + b"\1")


def packed(batch: FrameBatch) -> list[tuple[bytes, bytes]]:
    frames = PackedFrames(batch)
    return [
        (each.connection, pack(each)) if isinstance(each, Record) else (frames.key(each), frames.value(each))
        for each in batch.in_order()
    ]


@given(
    st.integers(0, 1_000_000_000).map(Random),
    st.lists(st.integers(0, 10_000), max_size=6),
    st.sampled_from([7, 100, 60_000]),
    st.floats(0, 0.2),
)
@examples(50)
def test_every_batch_is_packed_as_its_records_are(
    random: Random, cuts: list[int], size: int, loss: float
) -> None:
    clients = [SocketAddress(random.choice(ADDRESSES), 40_000 + number) for number in range(3)]
    conversations = [
        packets_between(EVENTS, client, SocketAddress(client.address, SERVER.port), segment=size)
        for client in clients
    ]
    packets = [packet for packet in interleaved(conversations, random) if random.random() >= loss]
    tracker = ColumnarTracker(SCHEMAS, ports={SERVER.port}, run=7, cluster="orders", feeder="rack-1")
    frames = 0
    for part in batches_of(packets, cuts):
        batch = tracker.feed(PacketBatch.of(part))
        assert packed(batch) == [(record.connection, pack(record)) for record in batch.records()]
        frames += len(batch.frames.sequences)
    assert frames
