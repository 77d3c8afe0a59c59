"""Synthetic traffic of many connections as batches of frames, made from templates.

A connection opens, requests the versions, joins a group and then fetches; in every fifth round it sends a
heartbeat, in another one it commits. Each connection has its own address and member ID.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import itertools
import struct
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from decoders.codec.request import write_request
from decoders.codec.response import write_response
from decoders.frame.columnar.pieces import gathered
from decoders.frame.record import Direction, Endpoint, Flag, Kind, Pairing, Record
from decoders.protocol import SASL_HANDSHAKE
from decoders.schema.registry import Schemas
from decoders.wire.columnar.events import Events
from decoders.wire.columnar.frames import FrameBatch, FrameColumns

FRAMES_IN_ROUND: Final = 10
_FIRST_CAPTURED_AT: Final = 1_790_000_000_000_000_000
_GAP: Final = 1_000_000
"""Nanoseconds between two frames of a connection."""
_CLIENT_PORT: Final = 40_000
_CLIENT_ID: Final = "orders-service-consumer-1"
_MEMBER_ID: Final = "8zQ4pXkCTt2cYd0sVhGm1A"
_MEMBER: Final = _MEMBER_ID.encode()
_GROUP: Final = {"groupId": "orders-service", "memberId": _MEMBER_ID}
_TOPIC_ID: Final = "vBxYyYy0QmO1n3Vd2mXkZQ"

Exchange = tuple[str, int, dict[str, Any], dict[str, Any]]
"""API, version, request body, response body."""


class Traffic:
    """Frames of `connections` connections, whose IDs depend on their number and the `run`."""

    def __init__(self, schemas: Schemas, connections: int, run: int = 1) -> None:
        self._run = run
        self._openings = [self._opened(number) for number in range(connections)]
        members = b"".join(_member_id(opening.connection) for opening in self._openings)
        self._members = np.frombuffer(members, np.uint8).reshape(connections, len(_MEMBER))
        join, fetch, heartbeat, commit = (
            self._exchange(schemas, exchange, Flag.SETTLED)
            for exchange in (_heartbeat(epoch=0), _fetch(), _heartbeat(), _commit())
        )
        self._opening = [*self._exchange(schemas, _negotiation()), *join, *heartbeat]
        plain = [fetch] * (FRAMES_IN_ROUND // 2)
        self._rounds = [
            list(itertools.chain(*frames))
            for frames in ([*plain[1:], heartbeat], [*plain[1:], commit], plain, plain, plain)
        ]

    def opening(self, begin: int = 0, end: int | None = None) -> Iterator[FrameBatch]:
        """Yield the first seven records of each connection."""
        events = [
            dataclasses.replace(opening, sequence=len(self._openings) + number)
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

        Frames are numbered as a run does, which counts those of all connections; these speak in turns.
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
        columns.captured_at[:] = _FIRST_CAPTURED_AT + turn * _GAP
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
            captured_at=_FIRST_CAPTURED_AT + _GAP,
            client=Endpoint.of(number.to_bytes(4), _CLIENT_PORT),
            server=Endpoint("10.9.0.1:9092"),
            cluster="bench",
            feeder="bench",
        )

    def _exchange(self, schemas: Schemas, exchange: Exchange, flags: Flag = Flag.NONE) -> list[Record]:
        api, version, request_body, response_body = exchange
        found = schemas.api_named(api)
        assert found is not None
        request = write_request(schemas, api, version, 7, _CLIENT_ID, request_body)
        response = write_response(schemas, api, version, 7, response_body)
        template = self._opened(0)
        return [
            dataclasses.replace(
                template, kind=Kind.REQUEST, direction=Direction.TO_BROKER, flags=flags, frame=request
            ),
            dataclasses.replace(
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
        events = Events.of(dataclasses.replace(event, captured_at=now) for event in batch.events)
        yield dataclasses.replace(batch, frames=frames, events=events)


def _negotiation() -> Exchange:
    software = {"clientSoftwareName": "apache-kafka-java", "clientSoftwareVersion": "4.4.0"}
    # KIP-1313 keeps SaslHandshake at version 1.
    ranges = [
        {"apiKey": key, "minVersion": 0, "maxVersion": 1 if key == SASL_HANDSHAKE else 20}
        for key in range(93)
    ]
    return "ApiVersions", 4, software, {"apiKeys": ranges}


def _fetch() -> Exchange:
    """A fetch of a session, whose records were cut."""
    response = {"sessionId": 7, "responses": [{"topicId": _TOPIC_ID, "partitions": [{"records": None}]}]}
    return "Fetch", 16, {"maxWaitMs": 500, "minBytes": 1, "sessionId": 7, "sessionEpoch": 9}, response


def _heartbeat(epoch: int = 5) -> Exchange:
    request = {**_GROUP, "memberEpoch": epoch, "subscribedTopicNames": None, "topicPartitions": None}
    response = {"memberId": _MEMBER_ID, "memberEpoch": 5, "heartbeatIntervalMs": 5_000}
    return "ConsumerGroupHeartbeat", 1, request, response


def _commit() -> Exchange:
    request = [{"partitionIndex": index, "committedOffset": 1 << 40} for index in range(4)]
    response = [{"partitionIndex": index} for index in range(4)]
    group = {**_GROUP, "generationIdOrMemberEpoch": 5}
    return (
        "OffsetCommit",
        8,
        {**group, "topics": [{"name": "orders", "partitions": request}]},
        {"topics": [{"name": "orders", "partitions": response}]},
    )
