"""Whatever the bytes of a frame, it has a body or the reason why there is none."""

from __future__ import annotations

import struct

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from decoders.frame.record import Direction, Endpoint, Kind, Record
from decoders.schema.registry import default_schemas
from streaming.transcript.frame import ConnectedClient, ConnectedClients, decode_frame
from streaming.transcript.text import event_line, frame_lines

SCHEMAS = default_schemas()
KEYS = st.sampled_from([*SCHEMAS.by_key, -1, 999])
VERSIONS = st.integers(-1, 20)


def record(kind: Kind, frame: bytes, *, missing: int = 0, paired: tuple[int, int] = (-1, -1)) -> Record:
    return Record(
        kind=kind,
        connection=b"c" * 16,
        run=1,
        sequence=1,
        captured_at=1,
        client=Endpoint("10.0.0.1:40000"),
        server=Endpoint("10.0.0.2:9092"),
        direction=Direction.TO_BROKER,
        paired_api_key=paired[0],
        paired_api_version=paired[1],
        true_length=len(frame) + missing,
        frame=frame,
    )


def assert_whole(frame: Record) -> None:
    read = decode_frame(SCHEMAS, frame, ConnectedClient())
    assert read is not None
    assert (read.body is None) == (read.failure is not None)
    assert msgspec.json.decode(msgspec.json.encode(read))["kind"] == read.kind
    assert all(line.isprintable() for line in frame_lines(read, SCHEMAS.api_names))


@given(KEYS, VERSIONS, st.binary(max_size=60), st.integers(0, 1))
@example(18, 4, b"", 0)
def test_a_request_has_a_body_or_a_failure(key: int, version: int, rest: bytes, missing: int) -> None:
    frame = struct.pack(">hhih", key, version, 7, -1) + rest
    assert_whole(record(Kind.REQUEST, frame, missing=missing))


@given(KEYS, VERSIONS, st.binary(max_size=60), st.integers(0, 1))
def test_a_response_has_a_body_or_a_failure(key: int, version: int, frame: bytes, missing: int) -> None:
    assert_whole(record(Kind.RESPONSE, frame, missing=missing, paired=(key, version)))


@given(st.binary(max_size=9), st.integers(0, 1))
def test_a_frame_too_short_for_a_header_has_a_failure(frame: bytes, missing: int) -> None:
    assert_whole(record(Kind.REQUEST, frame, missing=missing))


def test_an_event_is_no_frame() -> None:
    for kind in (Kind.OPENED, Kind.CLOSED, Kind.GAP, Kind.HEARTBEAT):
        assert decode_frame(SCHEMAS, record(kind, b""), ConnectedClient()) is None


def test_events_about_bytes_have_a_line() -> None:
    assert (event_line(record(Kind.GAP, b"")) or "").endswith("-- some bytes were not captured")
    size = event_line(record(Kind.INVALID_SIZE, b"", missing=3)) or ""
    assert size.endswith("-- not a frame: its length would be 3")
    assert event_line(record(Kind.HEARTBEAT, b"")) is None


def test_a_connection_that_closed_is_forgotten() -> None:
    clients = ConnectedClients()
    clients.of(record(Kind.OPENED, b"")).software_name = "x"
    assert clients.of(record(Kind.GAP, b"")).software_name == "x"
    assert clients.of(record(Kind.CLOSED, b"")).software_name == "x"
    assert clients.of(record(Kind.OPENED, b"")).software_name is None
