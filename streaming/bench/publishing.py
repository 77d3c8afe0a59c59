"""Writes the traffic of the benches to topics: in blocks as a feeder does, or one frame a record.

The second is what kipwatch published before there were blocks: an envelope of fixed size, then the frame. The
bare query of the pipeline bench reads it, so that its figures stay comparable from release to release.
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
from confluent_kafka import Producer

from decoders.frame.columnar.block import headers_of
from decoders.frame.columnar.block_writing import Block, BlockWriter
from decoders.wire.columnar.frames import FrameBatch
from streaming.user_error import UserError

BLOCK_SECONDS: Final = 0.1
_ENVELOPE: Final = np.dtype(
    [
        ("version", "V1"),
        ("kinds", "u1"),
        ("directions", "u1"),
        ("pairings", "u1"),
        ("closing", "V1"),
        ("flags", "u1"),
        ("run", ">u8"),
        ("sequences", ">i8"),
        ("captured_at", ">i8"),
        ("paired_sequences", ">i8"),
        ("paired_api_keys", ">i2"),
        ("paired_api_versions", ">i2"),
        ("positions", ">i8"),
        ("true_lengths", ">i8"),
        ("client", "V18"),
        ("server", "V18"),
        ("names", "V48"),
        ("lengths", ">u4"),
    ]
)
"""The former envelope. Its fields of a frame are named as the columns of a batch."""


def publish_blocks(bootstrap: str, topic: str, batches: Iterable[FrameBatch]) -> int:
    """Write batches to a topic, and return the number of their records. Raises UserError."""
    producer = _producer(bootstrap, "none")
    partitions = len(producer.list_topics(topic, timeout=30).topics[topic].partitions)
    count, writer, since = 0, BlockWriter(partitions), time.monotonic()
    for batch in batches:
        count += _send(producer, topic, writer.add(batch))
        if time.monotonic() - since >= BLOCK_SECONDS:
            count, since = count + _send(producer, topic, writer.take()), time.monotonic()
    count += _send(producer, topic, writer.take())
    _flush(producer, topic)
    return count


def publish_records(bootstrap: str, topic: str, batches: Iterable[FrameBatch]) -> int:
    """Write each frame of batches as a record, and return their number. Raises UserError."""
    producer, count = _producer(bootstrap, "lz4"), 0
    for batch in batches:
        for key, value in _records(batch):
            _produce(producer, topic, value, key=key)
            count += 1
    _flush(producer, topic)
    return count


def _send(producer: Producer, topic: str, blocks: Iterable[Block]) -> int:
    """Send blocks, and return the number of their rows."""
    rows = 0
    for block in blocks:
        _produce(producer, topic, block.value, partition=block.partition, headers=headers_of(block.rows))
        rows += block.rows
    return rows


def _records(batch: FrameBatch) -> Iterator[tuple[bytes, bytes]]:
    frames = batch.frames
    envelopes = np.zeros(len(frames.starts), _ENVELOPE)
    for name in _ENVELOPE.names or ():
        if name in frames._fields:
            envelopes[name] = getattr(frames, name)
    envelopes["run"] = 1
    clients = np.array([_socket(opening.client) for opening in batch.openings], "V18")
    envelopes["client"] = clients[frames.connections]
    packed, size, data = envelopes.tobytes(), _ENVELOPE.itemsize, batch.data.data
    rows = zip(frames.connections.tolist(), frames.starts.tolist(), frames.lengths.tolist(), strict=True)
    for row, (connection, start, length) in enumerate(rows):
        envelope = packed[row * size : (row + 1) * size]
        yield batch.openings[connection].connection, b"".join((envelope, data[start : start + length]))


def _socket(endpoint: str) -> bytes:
    address, _, port = endpoint.rpartition(":")
    return ipaddress.ip_address(address.strip("[]")).packed.rjust(16, b"\0") + int(port).to_bytes(2)


def _producer(bootstrap: str, compression: str) -> Producer:
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 200_000,
            "compression.type": compression,
        }
    )


def _produce(producer: Producer, topic: str, value: bytes, **what: Any) -> None:
    while True:
        try:
            producer.produce(topic, value, **what)
            producer.poll(0)
        except BufferError:
            producer.poll(0.1)
        else:
            return


def _flush(producer: Producer, topic: str) -> None:
    if producer.flush(60):
        raise UserError(f"the broker of the bench did not accept all records of {topic}")
