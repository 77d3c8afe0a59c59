"""Synthetic traffic of many connections as records of the frames topic, made from templates.

A connection opens, requests the versions, joins a group and then fetches; in every fifth round it sends a
heartbeat, in another one it commits. Each connection has its own envelope and member ID.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import struct
import time
from collections.abc import Iterator
from typing import Any, Final

from confluent_kafka import Producer

from decoders.codec.request import write_request
from decoders.codec.response import write_response
from decoders.frame.record import Direction, Endpoint, Flag, Kind, Pairing, Record, pack
from decoders.protocol import SASL_HANDSHAKE
from decoders.schema.registry import Schemas
from streaming.user_error import UserError

FRAMES_IN_ROUND: Final = 10
_FIRST_CAPTURED_AT: Final = 1_790_000_000_000_000_000
_GAP: Final = 1_000_000
"""Nanoseconds between two frames of a connection."""
_SEQUENCE, _CAPTURED_AT, _PAIRED = (struct.Struct(code) for code in (">Q", ">q", ">Q"))
_SEQUENCE_AT, _CAPTURED_AT_AT, _PAIRED_AT = 14, 22, 30
"""Offsets of these fields in the envelope."""
_CLIENT_AT: Final = 70
_CLIENT_ID: Final = "orders-service-consumer-1"
_MEMBER_ID: Final = "8zQ4pXkCTt2cYd0sVhGm1A"
_MEMBER: Final = _MEMBER_ID.encode()
_GROUP: Final = {"groupId": "orders-service", "memberId": _MEMBER_ID}
_TOPIC_ID: Final = "vBxYyYy0QmO1n3Vd2mXkZQ"

Keyed = tuple[bytes, bytes]
"""A record's key and value."""
Exchange = tuple[str, int, dict[str, Any], dict[str, Any]]
"""API, version, request body, response body."""


class Traffic:
    """Records of `connections` connections, whose IDs depend on their number and the `run`."""

    def __init__(self, schemas: Schemas, connections: int, run: int = 1) -> None:
        self._run = run
        self.keys = [connection_id(run, number) for number in range(connections)]
        self._members = [_member_id(key) for key in self.keys]
        join, fetch, heartbeat, commit = (
            self._exchange(schemas, exchange, Flag.SETTLED)
            for exchange in (_heartbeat(epoch=0), _fetch(), _heartbeat(), _commit())
        )
        negotiation = self._exchange(schemas, _negotiation())
        self._opening = [self._packed(Kind.OPENED, b""), *negotiation, *join, *heartbeat]
        plain = [fetch] * (FRAMES_IN_ROUND // 2)
        self._rounds = [
            list(itertools.chain(*frames))
            for frames in ([*plain[1:], heartbeat], [*plain[1:], commit], plain, plain, plain)
        ]

    def opening(self, begin: int = 0, end: int | None = None) -> Iterator[Keyed]:
        """Yield the first seven records of each connection."""
        return self._records([self._opening], 1, begin, end)

    def round(self, number: int, begin: int = 0, end: int | None = None) -> Iterator[Keyed]:
        """Yield a round, counted from 0: FRAMES_IN_ROUND frames of each connection, frame by frame."""
        first = len(self._opening) + 1 + number * FRAMES_IN_ROUND
        turned = number % len(self._rounds)
        return self._records([*self._rounds[turned:], *self._rounds[:turned]], first, begin, end)

    def _records(
        self, templates: list[list[bytes]], first: int, begin: int, end: int | None
    ) -> Iterator[Keyed]:
        """Yield the records position by position; connections use the templates in turn."""
        keys = self.keys[begin:end]
        for place, turn in enumerate(range(first, first + len(templates[0]))):
            values = [_stamped(template[place], turn) for template in templates]
            members_at = [value.find(_MEMBER) for value in values]
            for number, key in enumerate(keys, begin):
                value = values[number % len(values)]
                self._number(value, turn, number)
                value[_CLIENT_AT : _CLIENT_AT + 4] = number.to_bytes(4)
                member_at = members_at[number % len(values)]
                if member_at >= 0:
                    value[member_at : member_at + len(_MEMBER)] = self._members[number]
                yield key, bytes(value)

    def _number(self, value: bytearray, turn: int, number: int) -> None:
        """Number a record as a run does, which counts the frames of all connections; these speak in turns."""
        sequence = turn * len(self.keys) + number
        _SEQUENCE.pack_into(value, _SEQUENCE_AT, sequence)
        if value[1] == Kind.RESPONSE:
            _PAIRED.pack_into(value, _PAIRED_AT, sequence - len(self.keys))

    def _exchange(self, schemas: Schemas, exchange: Exchange, flags: Flag = Flag.NONE) -> list[bytes]:
        api, version, request_body, response_body = exchange
        found = schemas.api_named(api)
        assert found is not None
        request = write_request(schemas, api, version, 7, _CLIENT_ID, request_body)
        response = write_response(schemas, api, version, 7, response_body)
        paired = {"paired_sequence": 1, "paired_api_key": found.key, "paired_api_version": version}
        return [
            self._packed(Kind.REQUEST, request, direction=Direction.TO_BROKER, flags=flags),
            self._packed(
                Kind.RESPONSE, response, direction=Direction.TO_CLIENT, pairing=Pairing.MATCHED, **paired
            ),
        ]

    def _packed(self, kind: Kind, frame: bytes, **what: Any) -> bytes:
        record = Record(
            kind=kind,
            connection=bytes(16),
            run=self._run,
            sequence=1,
            captured_at=_FIRST_CAPTURED_AT,
            client=Endpoint("10.0.0.1:40000"),
            server=Endpoint("10.9.0.1:9092"),
            cluster="bench",
            feeder="bench",
            true_length=len(frame),
            frame=frame,
            **what,
        )
        return pack(record)


def _stamped(template: bytes, turn: int) -> bytearray:
    value = bytearray(template)
    _CAPTURED_AT.pack_into(value, _CAPTURED_AT_AT, _FIRST_CAPTURED_AT + turn * _GAP)
    return value


def _member_id(key: bytes) -> bytes:
    """Return the member ID of a connection, as Kafka writes a UUID."""
    return base64.urlsafe_b64encode(key).rstrip(b"=")


def connection_id(run: int, number: int) -> bytes:
    """Return a connection ID, evenly distributed like a feeder's."""
    return hashlib.blake2b(struct.pack(">QQ", run, number), digest_size=16).digest()


def captured_now(records: Iterator[Keyed]) -> Iterator[Keyed]:
    """Yield records with the present time as capture time."""
    for key, value in records:
        yield key, value[:_CAPTURED_AT_AT] + _CAPTURED_AT.pack(time.time_ns()) + value[_PAIRED_AT:]


def publish(bootstrap: str, topic: str, records: Iterator[Keyed]) -> int:
    """Write records to a topic, and return their number. Raises UserError unless all are acknowledged."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 200_000,
            "compression.type": "lz4",
        }
    )
    count = 0
    for key, value in records:
        _produce(producer, topic, key, value)
        count += 1
    if producer.flush(60):
        raise UserError(f"the broker of the bench did not accept all records of {topic}")
    return count


def _produce(producer: Producer, topic: str, key: bytes, value: bytes) -> None:
    while True:
        try:
            producer.produce(topic, value, key)
            producer.poll(0)
        except BufferError:
            producer.poll(0.1)
        else:
            return


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
