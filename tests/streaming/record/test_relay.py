"""The relay on loopback: bytes, ends and resets are forwarded, and all are recorded."""

from __future__ import annotations

import asyncio
import gc
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import cast

import pytest

from decoders.frame.record import Closing, Direction, Kind, Record
from decoders.schema.registry import default_schemas
from decoders.wire.segment import Packet, Segment, TcpFlag, read_segment
from decoders.wire.stream import SEQUENCE_SPACE
from decoders.wire.tracker import Tracker
from streaming.broker.ports import HOST, free_ports
from streaming.record.relay import ClientReader, Relay, RelayedConnection, Unchanged
from streaming.user_error import UserError
from tests.decoders.wire.conversation import metadata, metadata_response, prefixed
from tests.waiting import until

PATIENCE = 5.0


class RecordedPackets:
    """The packets of a relay, and their records."""

    def __init__(self) -> None:
        self.packets: list[Packet] = []

    def __call__(self, packets: list[Packet]) -> None:
        self.packets += packets

    def records(self, port: int) -> list[Record]:
        tracker = Tracker(default_schemas(), ports={port}, run=1)
        return [record for packet in list(self.packets) for record in tracker.feed(packet)]

    def closed(self, port: int) -> list[Record]:
        """The records, once the connection is closed."""

        def ended() -> list[Record]:
            records = self.records(port)
            return records if records and records[-1].kind is Kind.CLOSED else []

        return until(ended, PATIENCE, every=0.01)


@pytest.fixture
def recording() -> RecordedPackets:
    return RecordedPackets()


@pytest.fixture
def relay(listener: socket.socket, recording: RecordedPackets) -> Iterator[Relay]:
    with Relay(listener.getsockname(), recording) as running:
        yield running


Ends = Callable[[], tuple[socket.socket, socket.socket]]


@pytest.fixture
def ends(relay: Relay, listener: socket.socket) -> Iterator[Ends]:
    """Connects a client through the relay. Returns it and the broker's end."""
    opened: list[socket.socket] = []

    def connect() -> tuple[socket.socket, socket.socket]:
        client = socket.create_connection(relay.address, timeout=PATIENCE)
        broker, _ = listener.accept()
        broker.settimeout(PATIENCE)
        opened.extend((client, broker))
        return client, broker

    yield connect
    for end in opened:
        end.close()


def receive(end: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (chunk := end.recv(65536)):
        data += chunk
    return data


def test_a_conversation_passes_unchanged_and_is_recorded(
    relay: Relay, recording: RecordedPackets, ends: Ends
) -> None:
    client, broker = ends()
    request, response = prefixed(metadata(1)), prefixed(metadata_response(1) + bytes(1_000_000))
    client.sendall(request)
    assert receive(broker, len(request)) == request
    broker.sendall(response[:10])
    broker.sendall(response[10:])
    assert receive(client, len(response)) == response
    client.close()
    assert broker.recv(1) == b""
    broker.close()
    records = recording.closed(relay.address[1])
    assert [record.kind for record in records] == [Kind.OPENED, Kind.REQUEST, Kind.RESPONSE, Kind.CLOSED]
    assert (records[1].frame, records[2].frame) == (request[4:], response[4:])
    assert records[0].server == f"127.0.0.1:{relay.address[1]}"
    assert (records[-1].closing, records[-1].direction) == (Closing.FIN, Direction.TO_BROKER)


def test_the_target_may_have_an_ipv6_address(recording: RecordedPackets) -> None:
    request = prefixed(metadata(1))
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as target:
        target.settimeout(PATIENCE)
        with (
            Relay(target.getsockname()[:2], recording) as relay,
            socket.create_connection(relay.address, timeout=PATIENCE) as client,
        ):
            client.sendall(request)
            broker, _ = target.accept()
            with broker:
                assert receive(broker, len(request)) == request


def test_after_a_half_close_the_response_passes(relay: Relay, recording: RecordedPackets, ends: Ends) -> None:
    client, broker = ends()
    client.shutdown(socket.SHUT_WR)
    assert broker.recv(1) == b""
    broker.sendall(b"still here")
    assert receive(client, 10) == b"still here"
    broker.close()
    assert recording.closed(relay.address[1])[-1].closing is Closing.FIN


class SamePort:
    """The relay's end of a connection whose client always has the same port."""

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return {"peername": (HOST, 40_000), "sockname": (HOST, 9092)}[name]

    def is_closing(self) -> bool:
        return True


def test_a_port_that_is_used_again_has_another_connection(recording: RecordedPackets) -> None:
    """The kernel may give a port to the next client at once."""

    async def refused() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        raise ConnectionRefusedError

    for _ in range(2):
        end = cast(asyncio.StreamWriter, SamePort())
        relayed = RelayedConnection(recording, Unchanged(), cast(ClientReader, None), end)
        asyncio.run(relayed.run(refused))
    assert [record.kind for record in recording.records(9092)] == [Kind.OPENED, Kind.CLOSED] * 2


def acknowledged(recording: RecordedPackets, relay: Relay) -> list[bool]:
    """Of each request: whether it acknowledges all that was passed on to the client before."""
    sent, found = 0, []
    for packet in list(recording.packets):
        segment = read_segment(packet)
        assert isinstance(segment, Segment)
        if segment.source.port != relay.address[1]:
            found += [segment.acknowledgment == sent] * bool(segment.payload)
        else:
            length = len(segment.payload) + bool(segment.flags & TcpFlag.SYN)
            sent = (segment.sequence + length) % SEQUENCE_SPACE
    return found


def test_a_request_after_a_response_acknowledges_it(
    relay: Relay, recording: RecordedPackets, ends: Ends
) -> None:
    client, broker = ends()
    for number in range(20):
        request, response = prefixed(metadata(number)), prefixed(metadata_response(number))
        client.sendall(request)
        receive(broker, len(request))
        broker.sendall(response)
        receive(client, len(response))
    assert acknowledged(recording, relay) == [True] * 20


def test_a_request_that_crosses_a_response_does_not_acknowledge_it(
    listener: socket.socket, recording: RecordedPackets
) -> None:
    """It reaches the relay just before the response is passed on, and is read just behind."""
    request, response = prefixed(metadata(1)), prefixed(metadata_response(1))

    def record(packets: list[Packet]) -> None:
        recording(packets)
        segment = read_segment(packets[0])
        assert isinstance(segment, Segment)
        if segment.payload and segment.source.port == relay.address[1]:
            client.sendall(request)

    with (
        Relay(listener.getsockname(), record) as relay,
        socket.create_connection(relay.address, timeout=PATIENCE) as client,
    ):
        broker, _ = listener.accept()
        client.sendall(request)
        receive(broker, len(request))
        broker.sendall(response)
        assert len(receive(broker, len(request))) == len(request)
        client.sendall(request)
        assert len(receive(broker, len(request))) == len(request)
        broker.close()
    assert acknowledged(recording, relay) == [True, False, True]


def test_a_request_before_the_end_of_a_response_does_not_acknowledge_it(
    relay: Relay, recording: RecordedPackets, ends: Ends
) -> None:
    """The client reads the response late: it waits in the queues of its connection."""
    client, broker = ends()
    request, large = prefixed(metadata(1)), prefixed(metadata_response(1) + bytes(12_000_000))
    client.sendall(request)
    receive(broker, len(request))
    sending = threading.Thread(target=broker.sendall, args=(large,))
    sending.start()
    time.sleep(0.2)
    client.sendall(request)
    receive(broker, len(request))
    assert acknowledged(recording, relay) == [True, False]
    receive(client, len(large))
    sending.join()


@pytest.mark.parametrize("breaker", [0, 1], ids=["client", "broker"])
def test_a_reset_is_forwarded_and_recorded(
    relay: Relay, recording: RecordedPackets, ends: Ends, breaker: int
) -> None:
    both = ends()
    both[breaker].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    both[breaker].close()
    with pytest.raises(ConnectionResetError):
        both[1 - breaker].recv(1)
    last = recording.closed(relay.address[1])[-1]
    directions = (Direction.TO_BROKER, Direction.TO_CLIENT)
    assert (last.closing, last.direction) == (Closing.RST, directions[breaker])


def test_a_sender_waits_while_the_receiver_does_not_read(recording: RecordedPackets, ends: Ends) -> None:
    client, _broker = ends()
    client.settimeout(0.5)
    with pytest.raises(TimeoutError):
        for _ in range(2000):
            client.sendall(bytes(64 * 1024))
    passed = sum(len(packet.data) for packet in recording.packets)
    assert passed < 64 * 1024 * 1024


def test_a_waiting_connection_outlives_garbage_collection(
    relay: Relay, recording: RecordedPackets, ends: Ends
) -> None:
    client, broker = ends()
    gc.collect()
    client.sendall(b"?")
    assert broker.recv(1) == b"?"
    client.close()
    broker.close()
    assert recording.closed(relay.address[1])[-1].closing is Closing.FIN


def test_an_unreachable_target_breaks_the_connection(recording: RecordedPackets) -> None:
    (port,) = free_ports(1)
    with Relay((HOST, port), recording) as relay:
        with pytest.raises(ConnectionResetError), socket.create_connection(relay.address, PATIENCE) as client:
            client.recv(1)
        assert recording.closed(relay.address[1])[-1].closing is Closing.RST


def test_closing_breaks_off_every_connection_and_frees_the_port(
    listener: socket.socket, recording: RecordedPackets
) -> None:
    relay = Relay(listener.getsockname(), recording)
    with socket.create_connection(relay.address, timeout=PATIENCE) as client:
        listener.accept()[0].close()
        relay.close()
        with pytest.raises(ConnectionError):
            client.sendall(b"?")
            while client.recv(1):
                pass
    with Relay(listener.getsockname(), recording, relay.address[1]):
        pass


def test_a_taken_port_is_one_clear_line(listener: socket.socket, recording: RecordedPackets) -> None:
    port = listener.getsockname()[1]
    with pytest.raises(UserError, match=f"cannot listen on port {port}: Address already in use"):
        Relay(listener.getsockname(), recording, port)
