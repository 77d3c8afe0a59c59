"""Capture files, pcap and pcapng: clocks, byte orders, blocks, files that are truncated or damaged."""

from __future__ import annotations

import io
import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.tls.key_log import KeyLog
from decoders.wire.pcap import PcapError, PcapngReader, PcapReader, PcapWriter, read_capture
from decoders.wire.segment import Packet


def classic(order: str, magic: int, ticks: int) -> bytes:
    header = struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 65535, 1)
    record = struct.pack(f"{order}IIII", 5, ticks, 3, 9) + b"abc"
    return header + record + record


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize(("magic", "ticks"), [(0xA1B2C3D4, 250), (0xA1B23C4D, 250_000)])
def test_both_resolutions_and_byte_orders_are_read_to_nanoseconds(order: str, magic: int, ticks: int) -> None:
    reader = PcapReader(io.BytesIO(classic(order, magic, ticks)))
    at = 5_000_250_000
    assert list(reader) == [Packet(at, 1, b"abc", 9, 24), Packet(at, 1, b"abc", 9, 24 + 19)]
    assert not reader.truncated


@pytest.mark.parametrize("missing", [1, 3, 10, 18])
def test_a_file_that_ends_inside_a_record_yields_the_complete_packets_and_is_truncated(missing: int) -> None:
    reader = PcapReader(io.BytesIO(classic("<", 0xA1B2C3D4, 0)[:-missing]))
    assert len(list(reader)) == 1
    assert reader.truncated


@pytest.mark.parametrize("content", [b"", b"GET / HTTP/1.1\r\nHost: example\r\n", b"\xd4\xc3\xb2\xa1"])
def test_what_is_not_a_pcap_is_refused(content: bytes) -> None:
    with pytest.raises(PcapError, match="not a pcap file"):
        PcapReader(io.BytesIO(content))


def test_an_absurd_record_length_raises_and_allocates_nothing() -> None:
    content = classic("<", 0xA1B2C3D4, 0) + struct.pack("<IIII", 0, 0, 0xFFFFFFF0, 0xFFFFFFF0)
    with pytest.raises(PcapError, match="byte 62"):
        list(PcapReader(io.BytesIO(content)))


def test_written_packets_are_read_back() -> None:
    stream = io.BytesIO()
    writer = PcapWriter(stream, 113)
    writer.write(Packet(1_700_000_000_123_456_789, 113, b"cut", 1500))
    writer.write(Packet(1_700_000_001_000_000_000, 113, b"", 0))
    stream.seek(0)
    assert list(PcapReader(stream)) == [
        Packet(1_700_000_000_123_456_789, 113, b"cut", 1500, 24),
        Packet(1_700_000_001_000_000_000, 113, b"", 0, 43),
    ]


def test_a_file_accepts_packets_of_one_link_type() -> None:
    with pytest.raises(ValueError, match="link type 1 in a file of 113"):
        PcapWriter(io.BytesIO(), 113).write(Packet(0, 1, b"", 0))


SECOND = 1_000_000_000


class Section:
    """Writes the blocks of one section."""

    def __init__(self, order: str = "<") -> None:
        self.order = order
        self.data = b""
        self.block(0x0A0D0D0A, self.pack("IHHq", 0x1A2B3C4D, 1, 0, -1))

    def pack(self, layout: str, *values: int) -> bytes:
        return struct.pack(self.order + layout, *values)

    def block(self, kind: int, body: bytes) -> None:
        padded = body + bytes(-len(body) % 4)
        length = self.pack("I", len(padded) + 12)
        self.data += self.pack("I", kind) + length + padded + length

    def interface(self, link_type: int = 1, snap_length: int = 0, options: bytes = b"") -> None:
        self.block(1, self.pack("HHI", link_type, 0, snap_length) + options)

    def option(self, code: int, value: bytes) -> bytes:
        return self.pack("HH", code, len(value)) + value + bytes(-len(value) % 4)

    def enhanced(self, ticks: int, data: bytes, number: int = 0, original: int | None = None) -> None:
        original = len(data) if original is None else original
        fields = self.pack("5I", number, ticks >> 32, ticks & 0xFFFFFFFF, len(data), original)
        self.block(6, fields + data + bytes(-len(data) % 4) + self.option(2, b"flag") + bytes(4))


def read(data: bytes) -> list[Packet]:
    return list(PcapngReader(io.BytesIO(data)))


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize(
    ("resolution", "ticks"),
    [
        pytest.param(None, 5_000_250, id="microseconds by default"),
        pytest.param(b"\x03", 5_000, id="milliseconds"),
        pytest.param(b"\x09", 5_000_250_000, id="nanoseconds"),
        pytest.param(b"\x8a", 5 << 10 | 1, id="powers of two"),
    ],
)
def test_the_clock_of_an_interface_is_read(order: str, resolution: bytes | None, ticks: int) -> None:
    section = Section(order)
    options = section.option(9, resolution) if resolution else b""
    section.interface(113, options=section.option(2, b"eth0") + options + section.option(0, b""))
    section.enhanced(ticks, b"abc", original=9)
    expected = {b"\x03": 5 * SECOND, b"\x8a": 5 * SECOND + SECOND // 1024}.get(
        resolution or b"", 5 * SECOND + 250_000
    )
    assert [packet[:4] for packet in read(section.data)] == [(expected, 113, b"abc", 9)]


def test_the_offset_of_a_clock_is_added() -> None:
    section = Section()
    section.interface(options=section.option(14, section.pack("q", -3)))
    section.enhanced(5_000_000, b"")
    assert read(section.data)[0].captured_at == 2 * SECOND


@pytest.mark.parametrize(
    ("resolution", "offset", "ticks"),
    [(9, 1 << 62, 1), (9, -(1 << 62), 1), (9, -1, 1), (0, 0, (1 << 64) - 1), (9, 0, 1 << 62)],
)
def test_a_time_that_no_clock_shows_is_damage(resolution: int, offset: int, ticks: int) -> None:
    """Columns hold times in 64 bits, and the file chooses the unit and the beginning of its clock."""
    section = Section()
    options = section.option(9, bytes([resolution])) + section.option(14, section.pack("q", offset))
    section.interface(options=options)
    section.enhanced(ticks, b"abc")
    with pytest.raises(PcapError, match=r"the packet at byte \d+ has a time that no clock shows"):
        read(section.data)


def test_interfaces_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A section on a pipe may never end."""
    monkeypatch.setattr("decoders.wire.pcap.MOST_INTERFACES", 3)
    section = Section()
    for _ in range(4):
        section.interface()
    with pytest.raises(PcapError, match="more than 3 interfaces"):
        read(section.data)


def test_packets_of_several_interfaces_and_blocks_come_in_order() -> None:
    section = Section()
    section.interface(1, snap_length=4)
    section.interface(276, options=section.option(9, b"\x09"))
    section.enhanced(1_000_000, b"one")
    section.enhanced(2 * SECOND, b"two", number=1)
    section.block(5, bytes(20))
    section.block(3, section.pack("I", 6) + b"simp")
    section.block(4, bytes(8))
    section.block(2, section.pack("HHIIII", 1, 7, 0, 3 * 10**9, 3, 3) + b"old\0")
    section.block(0x0BAD, b"custom..")
    assert [packet[:4] for packet in read(section.data)] == [
        (SECOND, 1, b"one", 3),
        (2 * SECOND, 276, b"two", 3),
        (2 * SECOND, 1, b"simp", 6),
        (3 * SECOND, 276, b"old", 3),
    ]


def test_a_section_may_follow_in_another_byte_order_with_its_own_interfaces() -> None:
    first, second = Section("<"), Section(">")
    first.interface(1)
    first.enhanced(1, b"a")
    second.interface(113)
    second.enhanced(2, b"b")
    packets = read(first.data + second.data)
    assert [(packet.link_type, packet.data) for packet in packets] == [(1, b"a"), (113, b"b")]
    second_block = first.data + second.data
    assert second_block[packets[1].position :][:4] == b"\x00\x00\x00\x06"


@given(st.integers(1, 200))
def test_a_truncated_file_yields_the_complete_packets_and_continues_when_it_has_grown(kept: int) -> None:
    section = Section()
    section.interface()
    complete = [len(section.data)]
    for number in range(3):
        section.enhanced(number, bytes([number]) * 5)
        complete.append(len(section.data))
    kept = max(4, min(kept, len(section.data)))
    stream = io.BytesIO(section.data[:kept])
    reader = PcapngReader(stream)
    first = list(reader)
    assert len(first) == sum(end <= kept for end in complete[1:])
    assert reader.truncated == (kept not in {28, *complete})
    place = stream.tell()
    stream.seek(kept)
    stream.write(section.data[kept:])
    stream.seek(place)
    assert first + list(reader) == read(section.data)
    assert (reader.truncated, reader.position) == (False, len(section.data))


def damaged() -> dict[str, bytes]:
    section = Section()
    section.interface()
    start = section.data
    section.enhanced(0, b"data", number=3)
    unknown_interface = section.data
    return {
        "is incomplete": unknown_interface,
        "claims 8 bytes": start + struct.pack("<III", 6, 8, 8),
        "claims 4294967292 bytes": start + struct.pack("<II", 6, 0xFFFFFFFC),
        "another length": start + struct.pack("<III", 5, 12, 16),
        "no known byte order": struct.pack("<III", 0x0A0D0D0A, 28, 0x01020304) + bytes(16),
    }


@pytest.mark.parametrize("message", damaged())
def test_a_block_that_contradicts_itself_raises(message: str) -> None:
    with pytest.raises(PcapError, match=message):
        read(damaged()[message])


def simple(content: bytes) -> bytes:
    """A section whose simple packet block is of a packet of 10 bytes, 8 of which were captured."""
    section = Section()
    section.interface(snap_length=8)
    section.block(3, section.pack("I", 10) + content)
    return section.data


def test_a_simple_packet_block_holds_as_much_as_the_snap_length_allows() -> None:
    assert [(packet.data, packet.original_length) for packet in read(simple(bytes(8)))] == [(bytes(8), 10)]


def test_a_simple_packet_block_shorter_than_it_claims_is_damage() -> None:
    with pytest.raises(PcapError, match="incomplete"):
        read(simple(bytes(4)))


@given(
    st.sampled_from("<>"),
    st.lists(
        st.tuples(st.sampled_from([1, 2, 3, 4, 5, 6, 10, 0x0A0D0D0A]), st.binary(max_size=40)), max_size=6
    ),
    st.binary(max_size=20),
)
def test_any_blocks_and_any_bytes_behind_them_are_packets_or_an_error(
    order: str, blocks: list[tuple[int, bytes]], rest: bytes
) -> None:
    section = Section(order)
    section.interface()
    for kind, body in blocks:
        section.block(kind, body)
    with suppress(PcapError):
        read(section.data + rest)


def test_the_format_is_recognised_by_the_first_bytes() -> None:
    assert isinstance(read_capture(io.BytesIO(Section().data)), PcapngReader)
    pcap = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    assert isinstance(read_capture(io.BytesIO(pcap[2:]), pcap[:2]), PcapReader)
    with pytest.raises(PcapError, match="not a pcap"):
        read_capture(io.BytesIO(b"GET / HTTP/1.1\r\nHost: example\r\n"))


@pytest.mark.parametrize("order", "<>")
def test_secrets_of_tls_are_added_to_the_key_log_before_the_packets_behind_them(order: str) -> None:
    section = Section(order)
    section.interface()
    section.enhanced(1, b"before")
    text = b"# comment\nCLIENT_RANDOM " + b"01" * 32 + b" " + b"02" * 48
    section.block(10, section.pack("II", 0x544C534B, len(text)) + text + bytes(-len(text) % 4))
    section.block(10, section.pack("II", 0x57474B4C, len(text)) + text.replace(b"01", b"03"))
    section.enhanced(2, b"behind")
    key_log = KeyLog()
    held = [len(key_log) for _ in PcapngReader(io.BytesIO(section.data), key_log=key_log)]
    assert held == [0, 1]
    assert key_log.secrets(b"\x01" * 32) == {"CLIENT_RANDOM": b"\x02" * 48}
    assert len(read(section.data)) == 2


def test_secrets_without_their_length_are_damaged() -> None:
    section = Section()
    section.block(10, section.pack("I", 0x544C534B))
    with pytest.raises(PcapError, match="incomplete"):
        read(section.data)
