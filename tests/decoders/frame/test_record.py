"""The record: endpoints as people write them, and whether its frame is cut."""

from __future__ import annotations

import ipaddress

import pytest
from msgspec.structs import replace

from decoders.frame.record import Endpoint, Kind, Record

RECORD = Record(Kind.OPENED, bytes(16), 1, 1, 1, Endpoint("10.0.0.1:40000"), Endpoint("[::1]:9092"), "é" * 12)


@pytest.mark.parametrize(
    ("address", "written"),
    [("10.0.0.1", "10.0.0.1:9092"), ("::1", "[::1]:9092"), ("fe80::1", "[fe80::1]:9092")],
)
def test_endpoints_are_written_as_people_do(address: str, written: str) -> None:
    assert Endpoint.of(ipaddress.ip_address(address).packed, 9092) == written


def test_a_record_is_cut_when_bytes_of_its_frame_are_missing() -> None:
    assert replace(RECORD, frame=b"frame", true_length=6).is_cut
    assert not replace(RECORD, frame=b"frame", true_length=5).is_cut
