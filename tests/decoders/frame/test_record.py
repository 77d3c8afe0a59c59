"""The topic record: what is packed is unpacked unchanged, and other bytes are refused."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.frame.record import (
    ENVELOPE_VERSION,
    NAME_BYTES,
    Closing,
    Direction,
    Endpoint,
    Flag,
    Kind,
    Pairing,
    Record,
    RecordError,
    pack,
    unpack,
)

PORTS = st.integers(0, 0xFFFF)
ADDRESSES = st.ip_addresses(v=4) | st.ip_addresses(v=6).filter(
    lambda address: getattr(address, "ipv4_mapped", None) is None
)
ENDPOINTS = st.builds(lambda address, port: Endpoint.of(address.packed, port), ADDRESSES, PORTS)
# The envelope fills names up with NUL, which no name holds.
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=NAME_BYTES).filter(
    lambda name: len(name.encode()) <= NAME_BYTES
)
UINT64, INT64 = st.integers(0, (1 << 64) - 1), st.integers(-(1 << 63), (1 << 63) - 1)
INT16 = st.integers(-(1 << 15), (1 << 15) - 1)
RECORDS = st.builds(
    Record,
    kind=st.sampled_from(Kind),
    connection=st.binary(min_size=16, max_size=16),
    run=UINT64,
    sequence=INT64,
    captured_at=INT64,
    client=ENDPOINTS,
    server=ENDPOINTS,
    cluster=NAMES,
    feeder=NAMES,
    direction=st.sampled_from(Direction),
    pairing=st.sampled_from(Pairing),
    closing=st.sampled_from(Closing),
    flags=st.integers(0, 15).map(Flag),
    paired_sequence=INT64,
    paired_api_key=INT16,
    paired_api_version=INT16,
    position=INT64,
    true_length=INT64,
    frame=st.binary(max_size=64),
)
RECORD = Record(Kind.OPENED, bytes(16), 1, 1, 1, Endpoint("10.0.0.1:40000"), Endpoint("[::1]:9092"), "é" * 12)


@given(RECORDS)
def test_what_is_packed_comes_back(record: Record) -> None:
    """Every field, IPv4 and IPv6; the connection is the topic's key."""
    unpacked = unpack(record.connection, pack(record))
    assert unpacked == record
    assert [type(getattr(unpacked, name)) for name in Record.__slots__] == [
        type(getattr(record, name)) for name in Record.__slots__
    ]


@given(st.binary(max_size=200))
def test_foreign_bytes_are_no_record(value: bytes) -> None:
    with pytest.raises(RecordError):
        unpack(bytes(16), b"\0" + value)
    with pytest.raises(RecordError):
        unpack(bytes(16), bytes([ENVELOPE_VERSION]) + value[:50])


@given(RECORDS, st.data())
def test_a_changed_record_is_a_record_or_refused_but_never_anything_else(
    record: Record, data: st.DataObject
) -> None:
    value = bytearray(pack(record))
    for at in data.draw(st.lists(st.integers(0, len(value) - 1), max_size=4)):
        value[at] = data.draw(st.integers(0, 255))
    value = value[: data.draw(st.integers(0, len(value)))]
    try:
        assert isinstance(unpack(record.connection, bytes(value)), Record)
    except RecordError as error:
        assert "\n" not in str(error)


def test_another_envelope_version_is_refused_by_name() -> None:
    value = bytes([ENVELOPE_VERSION + 1]) + pack(RECORD)[1:]
    with pytest.raises(RecordError, match="not a record of envelope version 1: 02"):
        unpack(bytes(16), value)


@pytest.mark.parametrize("change", [b"x", None])
def test_a_frame_longer_or_shorter_than_the_envelope_says_is_refused(change: bytes | None) -> None:
    value = pack(Record(**{name: getattr(RECORD, name) for name in Record.__slots__} | {"frame": b"frame"}))
    with pytest.raises(RecordError, match=r"says 5 bytes, the frame has \d"):
        unpack(bytes(16), value + change if change else value[:-1])


@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_an_unknown_kind_or_direction_is_refused(at: int) -> None:
    """As a later feeder might write them under the same envelope version by mistake."""
    value = bytearray(pack(RECORD))
    value[at] = 99
    with pytest.raises(RecordError, match="99 is not a valid"):
        unpack(bytes(16), bytes(value))


@pytest.mark.parametrize(
    ("address", "written"),
    [("10.0.0.1", "10.0.0.1:9092"), ("::1", "[::1]:9092"), ("fe80::1", "[fe80::1]:9092")],
)
def test_endpoints_are_written_as_people_do(address: str, written: str) -> None:
    assert Endpoint.of(ipaddress.ip_address(address).packed, 9092) == written


def test_a_record_is_cut_when_bytes_of_its_frame_are_missing() -> None:
    fields = {name: getattr(RECORD, name) for name in Record.__slots__} | {"frame": b"frame"}
    assert Record(**fields | {"true_length": 6}).is_cut
    assert not Record(**fields | {"true_length": 5}).is_cut
