"""`frames_per_batch` is a promise about frames on a real broker, whatever blocks they come in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest
from confluent_kafka import Producer

from decoders.frame.columnar.block import headers_of
from decoders.frame.columnar.block_writing import Block, BlockWriter
from decoders.schema.registry import default_schemas
from decoders.wire.columnar.frames import FrameBatch
from streaming.bench.batches import Bench, MeasuredBatch
from streaming.bench.traffic import FRAMES_IN_ROUND, Traffic

pytestmark = [pytest.mark.jvm, pytest.mark.long, pytest.mark.timeout(300)]
CONNECTIONS, PARTITIONS = 400, 2


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with Bench() as running:
        yield running


def rounds(count: int, connections: int = CONNECTIONS) -> Iterator[FrameBatch]:
    traffic = Traffic(default_schemas(), connections)
    for number in range(count):
        yield from traffic.round(number)


def fill_in_blocks(bench: Bench, topic: str, batches: Iterator[FrameBatch], *, full: bool) -> None:
    """Write full blocks, or each batch in blocks of its own, as many feeders do that have little to say.

    No block is closed because of the time: on a busy machine the blocks would be smaller.
    """
    bench.fill(topic, [])
    producer = Producer({"bootstrap.servers": bench.configuration.bootstrap})
    writer = BlockWriter(PARTITIONS)

    def publish(blocks: Iterable[Block]) -> None:
        for block in blocks:
            headers = headers_of(block.rows)
            producer.produce(topic, block.value, partition=block.partition, headers=headers)
            bench.topics[topic] += block.rows
        producer.poll(0)

    for batch in batches:
        publish(writer.add(batch))
        if not full:
            publish(writer.take())
    publish(writer.take())
    assert producer.flush(30) == 0


def measured(bench: Bench, topic: str, frames_per_batch: int) -> list[MeasuredBatch]:
    return bench.monitor(topic, bench.topics[topic], frames_per_batch)


def test_a_backlog_of_full_blocks_is_read_in_batches_of_the_frames_that_are_wanted(bench: Bench) -> None:
    fill_in_blocks(bench, "full", rounds(60), full=True)
    batches = measured(bench, "full", 40_000)
    assert sum(batch.frames for batch in batches) == 60 * CONNECTIONS * FRAMES_IN_ROUND
    assert batches[0].frames <= 50_000
    assert all(30_000 <= batch.frames <= 50_000 for batch in batches[1:-1])


def test_small_blocks_are_soon_read_in_such_batches_too(bench: Bench) -> None:
    """And so are full ones that come behind them; a few batches are smaller where those begin.

    A batch is nine full blocks: one more or less is 10 %.
    """
    fill_in_blocks(bench, "small", rounds(16, connections=1_000), full=False)
    fill_in_blocks(bench, "small", rounds(60), full=True)
    frames = [batch.frames for batch in measured(bench, "small", 40_000)]
    assert frames[0] < 5_000
    assert max(frames) <= 50_000
    grown = next(place for place, count in enumerate(frames) if count >= 30_000)
    assert grown <= 3
    assert sum(count < 30_000 for count in frames[grown:-1]) <= 3, str(frames)


def test_blocks_of_three_frames_are_read_as_fast_as_fifty_feeders_send_them(bench: Bench) -> None:
    """Ten times a second to both partitions: a thousand blocks. A batch may take more than a second."""
    fill_in_blocks(bench, "tiny", (part for batch in rounds(2) for part in batch.parts(6)), full=False)
    batches = measured(bench, "tiny", 1_000_000)
    assert batches[0].frames < 1_500
    assert max(batch.frames for batch in batches) > 3_000
