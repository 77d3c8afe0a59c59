"""Live capture: blocks of the ring in the kernel's layout, and packets of the loopback interface."""

from __future__ import annotations

import socket
import struct
import time
from contextlib import closing
from ipaddress import ip_network

import numpy as np
import pytest

from decoders.frame.record import Closing, Kind, Record
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.ledger import Ledger
from decoders.wire.segment import LinkType, Packet, Segment, SocketAddress, read_segment
from decoders.wire.synthesis import SyntheticConnection
from streaming.feeder import capture as capture_module
from streaming.feeder.capture import CaptureError, InterfaceCapture, can_capture, copy_packets
from streaming.feeder.packet_filter import EXCLUDED_BYTES
from streaming.feeder.unwatched_traffic import ExcludedTraffic
from tests.decoders.wire.conversation import metadata, metadata_response, new_columnar_tracker, prefixed
from tests.streaming.feeder.live import captures

CLIENT, SERVER = SocketAddress(bytes(4), 1), SocketAddress(bytes(4), 9092)
HEADER, ALIGNMENT = 48, 16
VLAN_VALID, TPID_VALID = 0x10, 0x40


def block(packets: list[Packet], status: int = 0, tag: int = 0, tag_type: int = 0) -> bytes:
    """Lay packets out as a block of the kernel (tpacket3_hdr)."""
    laid = b""
    for packet in packets:
        size = -(-(HEADER + len(packet.data)) // ALIGNMENT) * ALIGNMENT
        seconds, nanoseconds = divmod(packet.captured_at, 1_000_000_000)
        fields = (size, seconds, nanoseconds, len(packet.data), packet.original_length, status, HEADER, 0)
        header = struct.pack("=IIIIIIHHIIHH", *fields, 0, tag, tag_type, 0).ljust(HEADER, b"\0")
        laid += (header + packet.data).ljust(size, b"\0")
    return bytes(HEADER) + laid


def read(content: bytes, count: int) -> list[Packet]:
    data, columns = np.zeros(2 * len(content), np.uint8), np.empty((4, count), np.int64)
    memory = np.frombuffer(bytearray(content), np.uint8)
    top = copy_packets(memory, HEADER, count, data, 0, columns, 0)
    positions, link_types = np.zeros(count, np.int64), np.full(count, LinkType.ETHERNET)
    starts, lengths, original_lengths, captured_at = columns
    batch = PacketBatch(data, top, starts, lengths, original_lengths, captured_at, positions, link_types)
    return list(batch.packets())


def test_packets_are_read_from_the_kernels_layout() -> None:
    opened = SyntheticConnection(CLIENT, SERVER).opened(1_700_000_000_123_456_789)
    cut = opened[0]._replace(data=opened[0].data[:54], original_length=1500)
    packets = [*opened, cut, cut._replace(data=b"")]
    assert read(block(packets), len(packets)) == packets


@pytest.mark.parametrize(
    ("status", "ethertype"), [(VLAN_VALID, 0x8100), (VLAN_VALID | TPID_VALID, 0x88A8)], ids=["tag", "kind"]
)
def test_a_vlan_tag_that_the_kernel_removed_is_inserted_again(status: int, ethertype: int) -> None:
    packet = SyntheticConnection(CLIENT, SERVER).opened(0)[0]
    (tagged,) = read(block([packet], status, 0xE007, 0x88A8), 1)
    assert tagged.data == packet.data[:12] + struct.pack(">HH", ethertype, 0xE007) + packet.data[12:]
    assert tagged.original_length == packet.original_length + 4
    segment = read_segment(tagged)
    assert isinstance(segment, Segment)
    assert segment.destination == SERVER


def converse(listener: socket.socket, response: bytes) -> None:
    """Exchange a request and its response over a real connection."""
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
    tracker = new_columnar_tracker(ports={port})
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
    """Their original size is kept."""
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
    """An interface that is named twice yields each packet twice, in order of time."""
    with InterfaceCapture(["lo", "lo"], {listener.getsockname()[1]}) as capture:
        converse(listener, prefixed(metadata_response(1)))
        time.sleep(0.2)
        captured = capture.packets(0.2)
        packets = list(captured.packets())
        assert set(captured.link_types) == {LinkType.ETHERNET}
    times = [packet.captured_at for packet in packets]
    assert times == sorted(times)
    assert sorted(packet.data for packet in packets)[::2] == sorted(packet.data for packet in packets)[1::2]


@captures
def test_an_interface_that_is_behind_tells_how_far_all_are_read(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture_module, "MAX_BLOCKS", 1)
    with InterfaceCapture(["lo", "lo"], {listener.getsockname()[1]}) as capture:
        for _ in range(3):
            converse(listener, prefixed(metadata_response(1)))
            time.sleep(0.1)
        reads = [(capture.packets(0.1), capture.read_until) for _ in range(8)]
    ends = [until or 0 for packets, until in reads if packets.size]
    latest = [int(packets.captured_at[-1]) for packets, _ in reads if packets.size]
    assert len(ends) >= 3
    assert all(0 < end <= last for end, last in zip(ends, latest, strict=True))
    assert reads[-1][1] is None


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
