"""Synthetic traffic of many connections as batches of frames, and how it is written to topics.

The frames are made from templates. A connection opens, requests the versions, joins a group and then
fetches; in every fifth round it sends a heartbeat, in another one it commits. Each connection has its own
address and member ID.

`publish_blocks` writes frames in blocks, as a feeder does. `publish_records` writes one frame a record, an
envelope of fixed size and then the frame. The bare query of the pipeline bench reads those, so that its
figures stay comparable from release to release.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import ipaddress
import itertools
import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec
import numpy as np
from confluent_kafka import Producer
from numpy.typing import NDArray

from decoders.codec.request import write_request
from decoders.codec.response import write_response
from decoders.frame.columnar.block import headers_of
from decoders.frame.columnar.block_writing import Block, BlockWriter
from decoders.frame.record import Direction, Endpoint, Flag, Kind, Pairing, Record
from decoders.memory import gathered
from decoders.protocol import SASL_HANDSHAKE
from decoders.schema.registry import Schemas
from decoders.wire.columnar.events import Events
from decoders.wire.columnar.frames import FrameBatch, FrameColumns
from streaming.user_error import UserError

FRAMES_IN_ROUND: Final = 10
SOFTWARE_NAME: Final = "apache-kafka-java"
FIRST_CAPTURED_AT: Final = 1_790_000_000_000_000_000
_GAP: Final = 1_000_000
"""Nanoseconds between two frames of a connection."""
_CLIENT_PORT: Final = 40_000
_CLIENT_ID: Final = "orders-service-consumer-1"
MEMBER_ID: Final = "8zQ4pXkCTt2cYd0sVhGm1A"
_MEMBER: Final = MEMBER_ID.encode()
_GROUP: Final = {"groupId": "orders-service", "memberId": MEMBER_ID}
_TOPIC_ID: Final = "vBxYyYy0QmO1n3Vd2mXkZQ"
RANGES: Final = [
    # KIP-1313 keeps SaslHandshake at version 1.
    {"apiKey": key, "minVersion": 0, "maxVersion": 1 if key == SASL_HANDSHAKE else 20}
    for key in range(93)
]
"""What the broker advertises."""
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
"""The envelope of a record. Fields that describe its frame are named like the columns of a batch."""

_Exchange = tuple[str, int, dict[str, Any], dict[str, Any]]
"""API, version, request body, response body."""


class Traffic:
    """Frames of `connections` connections, whose IDs depend on their number and the `run`."""

    def __init__(
        self, schemas: Schemas, connections: int, run: int = 1, software_name: str = SOFTWARE_NAME
    ) -> None:
        self._run = run
        self._openings = [self._opened(number) for number in range(connections)]
        members = b"".join(_member_id(opening.connection) for opening in self._openings)
        self._members = np.frombuffer(members, np.uint8).reshape(connections, len(_MEMBER))
        join, fetch, heartbeat, commit = (
            self._exchange(schemas, exchange, Flag.SETTLED)
            for exchange in (_heartbeat(epoch=0), _fetch(), _heartbeat(), _commit())
        )
        self._opening = [*self._exchange(schemas, _negotiation(software_name)), *join, *heartbeat]
        plain = [fetch] * (FRAMES_IN_ROUND // 2)
        self._rounds = [
            list(itertools.chain(*frames))
            for frames in ([*plain[1:], heartbeat], [*plain[1:], commit], plain, plain, plain)
        ]

    def opening(self, begin: int = 0, end: int | None = None) -> Iterator[FrameBatch]:
        """Yield the first seven records of each connection."""
        events = [
            msgspec.structs.replace(opening, sequence=len(self._openings) + number)
            for number, opening in enumerate(self._openings[begin:end], begin)
        ]
        nothing = FrameColumns.empty(0)
        yield FrameBatch(np.empty(0, np.uint8), nothing, Events.of(events), self._openings)
        yield from self._frames([self._opening], 2, begin, end)

    def round(self, number: int, begin: int = 0, end: int | None = None) -> Iterator[FrameBatch]:
        """Yield a round, counted from 0: FRAMES_IN_ROUND frames of each connection, frame by frame."""
        first = len(self._opening) + 2 + number * FRAMES_IN_ROUND
        turned = number % len(self._rounds)
        return self._frames([*self._rounds[turned:], *self._rounds[:turned]], first, begin, end)

    def _frames(
        self, templates: Sequence[Sequence[Record]], first: int, begin: int, end: int | None
    ) -> Iterator[FrameBatch]:
        """Yield the frames position by position; connections use the templates in turn."""
        numbers = np.arange(len(self._openings))[begin:end]
        for place, turn in enumerate(range(first, first + len(templates[0]))):
            yield self._spoken([template[place] for template in templates], numbers, turn)

    def _spoken(self, templates: Sequence[Record], numbers: NDArray[np.int64], turn: int) -> FrameBatch:
        """Let each connection send its frame of one turn.

        Sequences count the frames of all connections, as in a feeder's run; connections speak in turns.
        """
        used = numbers % len(templates)
        sizes = np.array([len(template.frame) for template in templates])
        joined = np.frombuffer(b"".join(template.frame for template in templates), np.uint8)
        data, offsets = gathered(joined, (np.cumsum(sizes) - sizes)[used], sizes[used])
        for number, template in enumerate(templates):
            member_at = template.frame.find(_MEMBER)
            if member_at >= 0:
                (rows,) = np.nonzero(used == number)
                places = offsets[rows, np.newaxis] + member_at + np.arange(len(_MEMBER))
                data[places] = self._members[numbers[rows]]
        columns = FrameColumns.empty(len(numbers))
        for name in ("kind", "direction", "pairing", "flags", "paired_api_key", "paired_api_version"):
            column = name if name == "flags" else f"{name}s"
            getattr(columns, column)[:] = np.array([getattr(template, name) for template in templates])[used]
        columns.connections[:] = numbers
        columns.sequences[:] = turn * len(self._openings) + numbers
        is_response = columns.kinds == Kind.RESPONSE
        columns.paired_sequences[:] = np.where(is_response, columns.sequences - len(self._openings), 0)
        columns.captured_at[:] = FIRST_CAPTURED_AT + turn * _GAP
        columns.positions[:] = 0
        columns.starts[:], columns.lengths[:] = offsets[:-1], sizes[used]
        columns.true_lengths[:] = sizes[used]
        return FrameBatch(data, columns, Events.of([]), self._openings)

    def _opened(self, number: int) -> Record:
        return Record(
            kind=Kind.OPENED,
            connection=connection_id(self._run, number),
            run=self._run,
            sequence=1,
            captured_at=FIRST_CAPTURED_AT + _GAP,
            client=Endpoint.of(number.to_bytes(4), _CLIENT_PORT),
            server=Endpoint("10.9.0.1:9092"),
            cluster="bench",
            feeder="bench",
        )

    def _exchange(self, schemas: Schemas, exchange: _Exchange, flags: Flag = Flag.NONE) -> list[Record]:
        api, version, request_body, response_body = exchange
        found = schemas.api_named(api)
        assert found is not None
        request = write_request(schemas, api, version, 7, _CLIENT_ID, request_body)
        response = write_response(schemas, api, version, 7, response_body)
        template = self._opened(0)
        return [
            msgspec.structs.replace(
                template, kind=Kind.REQUEST, direction=Direction.TO_BROKER, flags=flags, frame=request
            ),
            msgspec.structs.replace(
                template,
                kind=Kind.RESPONSE,
                direction=Direction.TO_CLIENT,
                pairing=Pairing.MATCHED,
                paired_api_key=found.key,
                paired_api_version=version,
                frame=response,
            ),
        ]


def _member_id(key: bytes) -> bytes:
    """Return the member ID of a connection, as Kafka writes a UUID."""
    return base64.urlsafe_b64encode(key).rstrip(b"=")


def connection_id(run: int, number: int) -> bytes:
    """Return a connection ID, evenly distributed like a feeder's."""
    return hashlib.blake2b(struct.pack(">QQ", run, number), digest_size=16).digest()


def captured_now(batches: Iterator[FrameBatch]) -> Iterator[FrameBatch]:
    """Yield batches with the present time as capture time."""
    for batch in batches:
        now = time.time_ns()
        frames = batch.frames._replace(captured_at=np.full_like(batch.frames.captured_at, now))
        events = Events.of(msgspec.structs.replace(event, captured_at=now) for event in batch.events)
        yield dataclasses.replace(batch, frames=frames, events=events)


def _negotiation(software_name: str) -> _Exchange:
    software = {"clientSoftwareName": software_name, "clientSoftwareVersion": "4.4.0"}
    return "ApiVersions", 4, software, {"apiKeys": RANGES}


def _fetch() -> _Exchange:
    """A fetch of a session, whose records were cut."""
    response = {"sessionId": 7, "responses": [{"topicId": _TOPIC_ID, "partitions": [{"records": None}]}]}
    return "Fetch", 16, {"maxWaitMs": 500, "minBytes": 1, "sessionId": 7, "sessionEpoch": 9}, response


def _heartbeat(epoch: int = 5) -> _Exchange:
    request = {**_GROUP, "memberEpoch": epoch, "subscribedTopicNames": None, "topicPartitions": None}
    response = {"memberId": MEMBER_ID, "memberEpoch": 5, "heartbeatIntervalMs": 5_000}
    return "ConsumerGroupHeartbeat", 1, request, response


def _commit() -> _Exchange:
    request = [{"partitionIndex": index, "committedOffset": 1 << 40} for index in range(4)]
    response = [{"partitionIndex": index} for index in range(4)]
    group = {**_GROUP, "generationIdOrMemberEpoch": 5}
    return (
        "OffsetCommit",
        8,
        {**group, "topics": [{"name": "orders", "partitions": request}]},
        {"topics": [{"name": "orders", "partitions": response}]},
    )


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
