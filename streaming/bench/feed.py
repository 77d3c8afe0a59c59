"""Bench: processor time of the whole feeder, compared with tracking alone, and the bytes that it publishes.

Both read the same capture, in turns. Tracking makes frames of packets and drops them. The feeder cuts them,
writes blocks and publishes them to a real broker; the threads of its producer count, the broker does not. The
measure is the median of processor time.

The bytes are those of the feeder's topic. They are compared with a topic that has the same frames, cut as the
feeder cuts them, one a record.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, Final

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, TopicPartition

from decoders.frame.columnar.block_writing import OPTIONS
from decoders.frame.columnar.cutting import ColumnarCutter
from decoders.schema.registry import default_schemas
from decoders.wire.columnar.frames import FrameBatch
from decoders.wire.columnar.packets import read_batches
from decoders.wire.pcap import read_capture
from streaming.bench import report
from streaming.bench.synthetic_capture import BROKER_PORT, SyntheticCapture, write_capture
from streaming.bench.traffic import publish_records
from streaming.bench.wire import tracked
from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.topics import FramesTopic, create_topics
from streaming.feeder.feeder import Feeder
from streaming.feeder.publisher import Publisher
from streaming.settings.configuration import Configuration
from streaming.user_error import UserError

PACKETS: Final = 1_200_000
ROUNDS: Final = 9
_TOPIC_SECONDS: Final = 30.0
_BUFFER_BYTES: Final = 1 << 29


def measure(packets: int = PACKETS, rounds: int = ROUNDS) -> dict[str, Any]:
    """Measure; figures are microseconds of a frame in feeder and tracking, and its bytes in the topic."""
    tracking, feeding = [], []
    with TemporaryDirectory() as folder, EmbeddedBroker() as broker:
        path = Path(folder, "feed.pcap")
        write_capture(path, SyntheticCapture(), packets)
        # The first pass loads compiled code.
        _track(path)
        for number in range(rounds):
            tracking.append(_track(path))
            feeding.append(_feed(path, broker.internal, f"blocks-{number}"))
        create_topics(broker.internal, "records", "findings")
        with path.open("rb") as file:
            frames = publish_records(broker.internal, "records", _cut(file))
        around = _bytes_around_frames(broker.internal, "blocks-0")
        stored = {topic: _stored_bytes(broker.data, topic) for topic in ("blocks-0", "records")}
    track, feed = statistics.median(tracking), statistics.median(feeding)
    figures = {
        "frames": float(frames),
        "track_microseconds_per_frame": track / frames * 1e6,
        "feed_microseconds_per_frame": feed / frames * 1e6,
        "topic_bytes_per_frame": around / frames,
        "stored_bytes_per_frame": stored["blocks-0"] / frames,
        "stored_bytes_per_record_of_one_frame": stored["records"] / frames,
    }
    blocks_vs_records = stored["blocks-0"] / stored["records"]
    return report("feed", figures, {"feed_vs_track": feed / track, "blocks_vs_records": blocks_vs_records})


def _track(path: Path) -> float:
    """Track all connections of a capture; returns seconds of processor time."""
    begin = time.process_time()
    with path.open("rb") as file:
        for _ in tracked(file):
            pass
    return time.process_time() - begin


def _feed(path: Path, bootstrap: str, topic: str) -> float:
    """Feed a capture into a topic; returns seconds of processor time until the broker has all."""
    configuration = Configuration(bootstrap=bootstrap, frames_topic=topic, ports=[BROKER_PORT])
    known = FramesTopic(bootstrap, topic, configuration.topics, {})
    if problem := known.wait(_TOPIC_SECONDS):
        raise UserError(problem)
    feeder = Feeder(configuration, run=1)
    begin = time.process_time()
    publisher = Publisher(bootstrap, topic, {}, _BUFFER_BYTES, feeder.waits, topic=known)
    with path.open("rb") as file:
        feeder.run(read_batches(read_capture(file)), publisher)
    taken = time.process_time() - begin
    if publisher.shedding.records or publisher.refused:
        raise UserError("the broker of the bench was too slow: records were shed or refused")
    return taken


def _cut(file: BinaryIO) -> Iterator[FrameBatch]:
    return map(ColumnarCutter(default_schemas()).cut, tracked(file))


def _bytes_around_frames(bootstrap: str, topic: str) -> int:
    """Return the bytes of a topic's blocks without the content of their frames, compressed as they are."""
    return sum(_without_content(value) for value in _values(bootstrap, topic))


def _without_content(block: bytes) -> int:
    """Return the size of a block whose frames hold as many zeros as they hold bytes."""
    with pa.ipc.open_stream(block) as stream:
        batch = stream.read_next_batch()
    place = batch.schema.get_field_index("frame")
    _, offsets, content = batch.column(place).buffers()
    buffers = [None, offsets, pa.py_buffer(bytes(content.size))]
    columns = batch.columns
    columns[place] = pa.BinaryArray.from_buffers(pa.binary(), len(batch), buffers)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=OPTIONS) as written:
        written.write_batch(pa.RecordBatch.from_arrays(columns, schema=batch.schema))
    size: int = sink.getvalue().size
    return size


def _values(bootstrap: str, topic: str) -> Iterator[bytes]:
    """Yield the values of all records of a topic."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "bench", "enable.partition.eof": True}
    consumer = Consumer({**settings, "enable.auto.commit": False, "auto.offset.reset": "earliest"})
    left = set(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in left])
    try:
        while left:
            message = consumer.poll(30)
            if message is None:
                raise UserError(f"the broker of the bench sent nothing of {topic} for 30 s")
            error = message.error()
            if error is None:
                yield message.value()
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition())
            else:
                raise UserError(f"cannot read {topic}: {error.str()}")
    finally:
        consumer.close()


def _stored_bytes(data: Path, topic: str) -> int:
    """Return the bytes of a topic's log segments."""
    return sum(segment.stat().st_size for segment in data.glob(f"{topic}-[0-9]*/*.log"))
