"""Live capture on the loopback interface."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import closing
from ipaddress import ip_network

import pytest

from decoders.frame.record import Closing, Kind, Record
from decoders.schema.registry import default_schemas
from decoders.wire.columnar.tracker import ColumnarTracker
from decoders.wire.ledger import Ledger
from decoders.wire.segment import LinkType
from streaming.feeder.capture import CaptureError, InterfaceCapture, can_capture
from streaming.feeder.excluded_traffic import ExcludedTraffic
from streaming.feeder.packet_filter import EXCLUDED_BYTES
from tests.decoders.wire.conversation import metadata, metadata_response, prefixed
from tests.streaming.feeder.live import captures


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(5)
        yield server


def converse(listener: socket.socket, response: bytes) -> None:
    """One request and its response over a real connection."""
    with closing(socket.create_connection(listener.getsockname(), timeout=5)) as client:
        broker, _ = listener.accept()
        with broker:
            client.sendall(prefixed(metadata(1)))
            broker.recv(65536)
            broker.sendall(response)
            received = 0
            while received < len(response):
                received += len(client.recv(65536))


@captures
def test_a_real_conversation_is_captured_once_and_becomes_records(
    listener: socket.socket,
) -> None:
    port, response = listener.getsockname()[1], prefixed(metadata_response(1) + bytes(200_000))
    tracker = ColumnarTracker(default_schemas(), ports={port}, run=1)
    before, records = time.time_ns(), list[Record]()
    with InterfaceCapture(["lo"], {port}) as capture:
        converse(listener, response)
        deadline = time.monotonic() + 5
        while not any(record.kind is Kind.CLOSED for record in records) and time.monotonic() < deadline:
            records += tracker.feed(capture.packets(0.2)).records()
        assert capture.dropped == 0
    assert [record.kind for record in records] == [Kind.OPENED, Kind.REQUEST, Kind.RESPONSE, Kind.CLOSED]
    assert (records[1].frame, records[2].frame) == (metadata(1), response[4:])
    assert records[3].closing is Closing.FIN
    assert before <= records[0].captured_at <= time.time_ns()
    # If packets were captured twice, every byte would be skipped once.
    assert tracker.ledger.skipped.total() == 0


@captures
def test_packets_that_are_not_read_in_time_are_counted_as_dropped(listener: socket.socket) -> None:
    with InterfaceCapture(["lo"], {listener.getsockname()[1]}, buffer_bytes=0) as capture:
        for _ in range(10):
            converse(listener, bytes(500_000))
        dropped = capture.dropped
        assert dropped > 0
        assert capture.dropped == dropped


@captures
def test_packets_at_a_low_rate_are_kept_for_seconds_until_they_are_read(listener: socket.socket) -> None:
    """Each packet takes a block of the ring."""
    with InterfaceCapture(["lo"], {listener.getsockname()[1]}) as capture:
        for _ in range(50):
            converse(listener, prefixed(metadata_response(1)))
            time.sleep(0.08)
        assert capture.dropped == 0
        unread = capture.unread
        assert sum(capture.packets(0.2).size for _ in range(3)) == unread > 50 * 6
        assert capture.unread == 0


@captures
@pytest.mark.parametrize("network", ["127.0.0.1", "127.0.0.0/8"])
def test_packets_of_excluded_addresses_are_cut_by_the_kernel_and_counted(
    listener: socket.socket, network: str
) -> None:
    """With the size that they had."""
    response, excluded, ledger = (
        prefixed(metadata_response(1) + bytes(200_000)),
        [ip_network(network)],
        Ledger(),
    )
    with InterfaceCapture(["lo"], {listener.getsockname()[1]}, excluded=excluded) as capture:
        converse(listener, response)
        time.sleep(0.2)
        captured = capture.packets(0.2)
    assert captured.size and max(captured.lengths) <= EXCLUDED_BYTES < max(captured.original_lengths)
    assert ExcludedTraffic(excluded).without_excluded(captured, ledger).size == 0
    assert ledger.fates() == {
        "framed": 0,
        "skipped-excluded": len(prefixed(metadata(1))) + len(response),
        "lost": 0,
    }


@captures
def test_several_interfaces_are_captured_at_once(listener: socket.socket) -> None:
    """The same interface twice yields each packet twice, in the order of time."""
    with InterfaceCapture(["lo", "lo"], {listener.getsockname()[1]}) as capture:
        converse(listener, prefixed(metadata_response(1)))
        time.sleep(0.2)
        packets = list(capture.packets(0.2).packets())
        assert capture.link_types == {LinkType.ETHERNET}
    times = [packet.captured_at for packet in packets]
    assert times == sorted(times)
    assert sorted(packet.data for packet in packets)[::2] == sorted(packet.data for packet in packets)[1::2]


@captures
def test_a_packet_waits_no_longer_than_its_block(listener: socket.socket) -> None:
    with InterfaceCapture(["lo"], {listener.getsockname()[1]}) as capture:
        converse(listener, prefixed(metadata_response(1)))
        (first, *_), now = capture.packets(1).captured_at, time.time_ns()
    assert now - first < 500_000_000


@captures
def test_a_call_waits_no_longer_than_its_timeout(listener: socket.socket) -> None:
    with InterfaceCapture(["lo"], {listener.getsockname()[1]}) as capture:
        start = time.monotonic()
        assert capture.packets(0.05).size == 0
        assert 0.04 < time.monotonic() - start < 1


@captures
def test_a_missing_interface_and_too_many_ports_are_errors_of_one_line() -> None:
    with pytest.raises(CaptureError, match="cannot capture on interface nope0: No such device"):
        InterfaceCapture(["nope0"], {9092})
    with pytest.raises(CaptureError, match="at most 50 ports"):
        InterfaceCapture(["lo"], range(1, 100))


def test_without_permission_to_capture_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> socket.socket:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(socket, "socket", refuse)
    assert not can_capture()
    with pytest.raises(CaptureError, match="CAP_NET_RAW"):
        InterfaceCapture(["lo"], {9092})
