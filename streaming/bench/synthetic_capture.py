"""A synthetic capture beside a busy broker, made as fast as a file can be written.

Some hundred clients negotiate versions, and then produce, fetch, commit and send heartbeats, in turns.
Frames are real Kafka bytes, from some dozen bytes to some dozen kilobytes, in segments of Ethernet size,
every other one acknowledged. The codec writes each exchange once; numpy copies its packets for every client,
with that client's address, sequence numbers and times. Checksums are not updated.

`ShortConnections` has clients that leave after four small exchanges. `EncryptedCapture` has the same clients
and frames over TLS 1.3. All its clients have the same secrets, so that each exchange is encrypted once and
copied for every client, as in plaintext. A reader derives keys for each connection, and decrypts each of its
records.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray

from decoders.codec.request import write_request
from decoders.codec.response import write_response
from decoders.frame.record import Direction
from decoders.schema.registry import default_schemas
from decoders.tls.handshake import TLS_1_3
from decoders.tls.protection import IV_SIZE, TAG_SIZE, Aead, CipherSuite, traffic_keys
from decoders.tls.records import ContentType
from decoders.wire.pcap import PcapWriter
from decoders.wire.segment import LinkType, Packet, Segment, SocketAddress, read_segment
from decoders.wire.synthesis import SyntheticConnection

BROKER_PORT = 9092
CLIENTS = 400
_BROKER = SocketAddress(bytes([10, 0, 0, 1]), BROKER_PORT)
_CLIENT = SocketAddress(bytes([10, 1, 0, 0]), 40_000)
SHORT_CONNECTION = 18
"""Packets of a short connection: three each for the handshake, four exchanges, and the end."""
_ADDRESSES = 50_000
"""Clients of short connections with addresses of their own; further ones use these again."""
_SEGMENT = 1448
_RECORD_HEADER = struct.Struct("<IIII")
_ETHERNET, _IP = 14, 20
_BEGINNING = 1_700_000_000_000_000_000
_INTERVAL = 40_000
"""Nanoseconds between two clients' exchanges."""
_TO_BROKER, _TO_CLIENT = Direction.TO_BROKER, Direction.TO_CLIENT
_SUITE_NUMBER: Final = 0x1301
"""TLS_AES_128_GCM_SHA256."""
_SUITE: Final = CipherSuite(TLS_1_3, Aead.AES_128_GCM, "sha256")
_LARGEST_CONTENT: Final = 1 << 14
_CLIENT_RANDOM: Final = bytes(range(32))
_SECRETS: Final = {_TO_BROKER: b"\1" * 32, _TO_CLIENT: b"\2" * 32}
_LABELS: Final = {
    _TO_BROKER: "CLIENT_TRAFFIC_SECRET_0",
    _TO_CLIENT: "SERVER_TRAFFIC_SECRET_0",
}
_CERTIFICATES: Final = 2_500
"""Bytes of the broker's encrypted part of the handshake, most of them certificates."""
_CHANGE_CIPHER_SPEC: Final = bytes.fromhex("140303000101")
_VERSION_1_3: Final = bytes.fromhex("0006002b00020304")
"""The extension of a ServerHello that says TLS 1.3."""


Exchange = tuple[bytes, bytes]
"""The frames of a request and its response, with length prefixes."""


def exchange(api: str, version: int, request: dict[str, Any], response: dict[str, Any]) -> Exchange:
    """Write the frames of a request and its response with these bodies."""
    schemas, correlation_id = default_schemas(), len(api) + version
    return (
        prefixed(write_request(schemas, api, version, correlation_id, "client", request)),
        prefixed(write_response(schemas, api, version, correlation_id, response)),
    )


def prefixed(frame: bytes) -> bytes:
    """Put the length of a frame before it, as on the wire."""
    return struct.pack(">i", len(frame)) + frame


def _exchanges() -> Iterator[Exchange]:
    """Yield the exchanges of one round."""

    def records(size: int) -> str:
        return "QUJD" * (size // 3)

    for size in (300, 900, 12_000):
        data = [{"index": 0, "records": records(size)}]
        topics = [{"name": "orders", "partitionData": data}]
        stored = [{"name": "orders", "partitionResponses": [{"index": 0, "baseOffset": 1}]}]
        yield exchange(
            "Produce", 9, {"acks": -1, "timeoutMs": 1000, "topicData": topics}, {"responses": stored}
        )
    for size in (0, 2_000, 30_000):
        wanted = [{"partition": 0, "fetchOffset": 1, "partitionMaxBytes": 1 << 20}]
        fetched = [{"partitionIndex": 0, "highWatermark": 1, "records": records(size)}]
        request = {"maxWaitMs": 500, "minBytes": 1, "topics": [{"topic": "orders", "partitions": wanted}]}
        yield exchange("Fetch", 11, request, {"responses": [{"topic": "orders", "partitions": fetched}]})
        yield exchange("Heartbeat", 4, {"groupId": "group", "generationId": 1, "memberId": "member"}, {})
    committed = [{"name": "orders", "partitions": [{"partitionIndex": 0, "committedOffset": 1}]}]
    yield exchange("OffsetCommit", 8, {"groupId": "group", "memberId": "member", "topics": committed}, {})
    partitions = [{"partitionIndex": index, "replicaNodes": [1, 2, 3]} for index in range(12)]
    yield exchange(
        "Metadata",
        9,
        {"topics": [{"name": "orders"}]},
        {"topics": [{"name": "orders", "partitions": partitions}]},
    )


class CarriedPackets(NamedTuple):
    """The packets of one client that carry some bytes.

    They increase the sequence numbers of the client and of the broker by `advance`.
    """

    packets: list[Packet]
    advance: tuple[int, int]


def _carried(events: Iterable[tuple[Direction, bytes]], *, opens: bool = False) -> CarriedPackets:
    """Return packets that carry bytes in the given directions; with `opens`, the connection opens first."""
    connection, sent = SyntheticConnection(_CLIENT, _BROKER), {_TO_BROKER: int(opens), _TO_CLIENT: int(opens)}
    packets = connection.opened(0) if opens else []
    for direction, data in events:
        packets += _sent(connection, direction, data)
        sent[direction] += len(data)
    if not opens:
        packets += connection.acknowledged(0, _TO_BROKER)
    return CarriedPackets(packets, (sent[_TO_BROKER], sent[_TO_CLIENT]))


def _in_turn(frames: Exchange) -> list[tuple[Direction, bytes]]:
    """Return a request and its response with their directions."""
    request, response = frames
    return [(_TO_BROKER, request), (_TO_CLIENT, response)]


def _sent(connection: SyntheticConnection, direction: Direction, data: bytes) -> Iterator[Packet]:
    other = _TO_CLIENT if direction is _TO_BROKER else _TO_BROKER
    for count, start in enumerate(range(0, len(data), _SEGMENT)):
        yield from connection.sent(0, direction, data[start : start + _SEGMENT])
        if count % 2:
            yield from connection.acknowledged(0, other)


def _negotiation() -> Exchange:
    """Return the frames with which each client negotiates versions."""
    software = {"clientSoftwareName": "bench", "clientSoftwareVersion": "1"}
    released = [(api.key, api.release_versions) for api in default_schemas().apis if api.release_versions]
    ranges = [
        {"apiKey": key, "minVersion": versions.lowest, "maxVersion": versions.highest}
        for key, versions in released
    ]
    return exchange("ApiVersions", 3, software, {"apiKeys": ranges})


class SyntheticCapture:
    """The bytes of the capture, one exchange of all clients at a time, without end.

    `exchanges` are those of each client in one round. `first` is the number of the first client, which
    determines its address. `begin` is added to all sequence numbers: clients that connect again need others.
    """

    def __init__(
        self,
        clients: int = CLIENTS,
        exchanges: Iterable[Exchange] | None = None,
        first: int = 0,
        begin: int = 0,
    ) -> None:
        self._exchanges = list(_exchanges() if exchanges is None else exchanges)
        self._first = first
        self._random = np.random.default_rng(1)
        self._sequences = np.full((clients, 2), begin, np.int64)
        self._turns = 0
        self.packets = 0
        """The number of packets made so far."""

    def blocks(self) -> Iterator[bytes]:
        """Yield the file in pieces: its header, then complete records."""
        yield _file_header()
        yield self._copied(_carried(_in_turn(_negotiation()), opens=True))
        in_round = [_carried(_in_turn(each)) for each in self._exchanges]
        while True:
            for packets in in_round:
                yield self._copied(packets)

    def _copied(self, of_client: CarriedPackets) -> bytes:
        """Return the packets of one client for every client, the clients in random order."""
        clients = self._random.permutation(len(self._sequences))
        times = _BEGINNING + _INTERVAL * (self._turns + np.arange(len(clients)))
        columns = [
            _records(packet, self._first + clients, self._sequences[clients], times)
            for packet in of_client.packets
        ]
        self._sequences[clients] += of_client.advance
        self._turns += len(clients)
        self.packets += len(clients) * len(of_client.packets)
        return np.concatenate(columns, axis=1).tobytes()


def write_capture(path: Path, capture: SyntheticCapture, packets: int) -> int:
    """Write at least `packets` packets of a capture, and return their number."""
    with path.open("wb") as file:
        for block in capture.blocks():
            file.write(block)
            if capture.packets >= packets:
                return capture.packets
    raise AssertionError("the capture has no end")


class ShortConnections(SyntheticCapture):
    """The bytes of a capture of clients that connect, make four small exchanges, and leave, without end.

    Each connection has SHORT_CONNECTION packets, and `clients` connections are open at a time.
    """

    def blocks(self) -> Iterator[bytes]:
        """Yield the file in pieces: its header, then complete records."""
        parts = [_opening(), *(_carried(_in_turn(each)) for each in _small_exchanges()), _closing()]
        yield _file_header()
        while True:
            for part in parts:
                yield self._copied(part)
            self._first = (self._first + len(self._sequences)) % _ADDRESSES
            # A socket that is used again needs other sequence numbers.
            self._sequences += 1 << 20


def _file_header() -> bytes:
    """Return the beginning of the capture file."""
    header = io.BytesIO()
    PcapWriter(header, LinkType.ETHERNET)
    return header.getvalue()


def _opening() -> CarriedPackets:
    return _carried([], opens=True)


def _closing() -> CarriedPackets:
    connection = SyntheticConnection(_CLIENT, _BROKER)
    packets = [*connection.finished(0, _TO_BROKER), *connection.finished(0, _TO_CLIENT)]
    return CarriedPackets([*packets, *connection.acknowledged(0, _TO_BROKER)], (1, 1))


def _small_exchanges() -> Iterator[Exchange]:
    software = {"clientSoftwareName": "bench", "clientSoftwareVersion": "1"}
    member = {"groupId": "group", "memberId": "member"}
    yield exchange("ApiVersions", 3, software, {"apiKeys": [{"apiKey": 3, "minVersion": 0, "maxVersion": 9}]})
    yield exchange("Metadata", 9, {"topics": [{"name": "orders"}]}, {})
    yield exchange("Heartbeat", 4, {**member, "generationId": 1}, {})
    yield exchange("OffsetCommit", 8, {**member, "topics": []}, {})


def _records(
    packet: Packet, clients: NDArray[np.int64], sequences: NDArray[np.int64], times: NDArray[np.int64]
) -> NDArray[np.uint8]:
    """Return one packet's pcap record for every client, one row per client."""
    segment = read_segment(packet)
    assert isinstance(segment, Segment)
    to_broker = segment.destination == _BROKER
    header = _RECORD_HEADER.pack(0, 0, len(packet.data), len(packet.data))
    rows = np.tile(np.frombuffer(header + packet.data, np.uint8), (len(clients), 1))
    seconds, nanoseconds = np.divmod(times, 1_000_000_000)
    _put(rows, 0, seconds, "<u4")
    _put(rows, 4, nanoseconds, "<u4")
    ip = _RECORD_HEADER.size + _ETHERNET
    tcp = ip + _IP
    _put(rows, ip + (14 if to_broker else 18), clients, ">u2")
    own, other = (0, 1) if to_broker else (1, 0)
    _put(rows, tcp + 4, (segment.sequence + sequences[:, own]) % (1 << 32), ">u4")
    _put(rows, tcp + 8, (segment.acknowledgment + sequences[:, other]) % (1 << 32), ">u4")
    return rows


def _put(rows: NDArray[np.uint8], at: int, values: NDArray[np.int64], number: str) -> None:
    encoded = values.astype(number).view(np.uint8).reshape(len(rows), -1)
    rows[:, at : at + encoded.shape[1]] = encoded


class _Sealer:
    """Encrypts what one side sends, in records of the largest size."""

    def __init__(self, secret: bytes) -> None:
        keys = traffic_keys(_SUITE, secret)
        self._aead, self._iv = AESGCM(keys.key), int.from_bytes(keys.iv)
        self._number = 0

    def records(self, data: bytes, kind: ContentType = ContentType.APPLICATION_DATA) -> bytes:
        """Return the records that carry some bytes."""
        pieces = (data[at : at + _LARGEST_CONTENT] for at in range(0, len(data), _LARGEST_CONTENT))
        return b"".join(self._record(piece + bytes([kind])) for piece in pieces)

    def _record(self, content: bytes) -> bytes:
        header = _header(ContentType.APPLICATION_DATA, len(content) + TAG_SIZE)
        nonce = (self._iv ^ self._number).to_bytes(IV_SIZE)
        self._number += 1
        return header + self._aead.encrypt(nonce, content, header)


class EncryptedCapture(SyntheticCapture):
    """`SyntheticCapture` over TLS. `key_log` has the secrets of all its connections."""

    key_log: Final = "".join(
        f"{_LABELS[direction]} {_CLIENT_RANDOM.hex()} {secret.hex()}\n"
        for direction, secret in _SECRETS.items()
    )

    def blocks(self) -> Iterator[bytes]:
        """Yield the file in pieces: its header, then complete records."""
        sealers = {direction: _Sealer(secret) for direction, secret in _SECRETS.items()}

        def sealed(frames: Exchange) -> list[tuple[Direction, bytes]]:
            return [(direction, sealers[direction].records(data)) for direction, data in _in_turn(frames)]

        yield _file_header()
        tickets = (
            _TO_CLIENT,
            sealers[_TO_CLIENT].records(b"\4\0\0\1t", ContentType.HANDSHAKE),
        )
        yield self._copied(_carried([*_handshake(), tickets, *sealed(_negotiation())], opens=True))
        while True:
            for exchange in self._exchanges:
                yield self._copied(_carried(sealed(exchange)))


def _handshake() -> Iterator[tuple[Direction, bytes]]:
    """Yield the flights of a handshake: the hellos, and records with keys that are in no key log."""
    number = _SUITE_NUMBER.to_bytes(2)
    yield _TO_BROKER, _hello(1, b"\0\2" + number + b"\1\0")
    hello = _hello(2, number + b"\0" + _VERSION_1_3)
    hidden = _Sealer(b"\3" * 32)
    encrypted = hidden.records(bytes(_CERTIFICATES), ContentType.HANDSHAKE)
    yield _TO_CLIENT, hello + _CHANGE_CIPHER_SPEC + encrypted
    yield _TO_BROKER, _CHANGE_CIPHER_SPEC + hidden.records(bytes(36), ContentType.HANDSHAKE)


def _hello(kind: int, rest: bytes) -> bytes:
    """Return the record of a ClientHello (1) or ServerHello (2)."""
    body = b"\3\3" + _CLIENT_RANDOM + b"\0" + rest
    message = bytes([kind]) + len(body).to_bytes(3) + body
    return _header(ContentType.HANDSHAKE, len(message)) + message


def _header(kind: ContentType, size: int) -> bytes:
    return bytes([kind]) + b"\3\3" + size.to_bytes(2)
