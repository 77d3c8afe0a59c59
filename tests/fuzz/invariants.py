"""What holds for any bytes: codec, packet layers and TLS return a value or a failure, and never raise.

The first byte of an input says what the rest is; the corpus and hypothesis begin from the same form.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from decoders.codec.failure import DecodeFailure, Remark
from decoders.codec.request import Request, expects_response, read_request, write_request
from decoders.codec.response import Response, read_response, write_response
from decoders.schema.registry import default_schemas
from decoders.tls.handshake import (
    RANDOM_SIZE,
    TLS_1_3,
    HandshakeError,
    read_client_hello,
    read_new_session_ticket,
    read_server_hello,
)
from decoders.tls.key_log import KeyLog
from decoders.tls.outcome import UnreadableError
from decoders.tls.records import BrokenRecordError, RecordReader
from decoders.tls.session import Session, Side
from decoders.wire.segment import LinkType, Packet, Segment, Skipped, read_segment
from tests.decoders.tls.writer import TlsWriter

SCHEMAS: Final = default_schemas()
ASKED: Final = struct.Struct(">hh")
"""What precedes a response in an input: key and version of its request's API."""
Kind = Callable[[bytes], None]
"""Checks the promises of one kind of input."""
WRITER: Final = TlsWriter(TLS_1_3, 0x1301)
_LINK_TYPES: Final = tuple(LinkType)


def a_request(data: bytes) -> None:
    """Check the promises of a request frame."""
    request = read_request(SCHEMAS, data)
    _is_sound(request, data)
    assert expects_response(SCHEMAS, data) in (True, False, None)
    if request.body is not None and not request.remarks and not _is_of_overlay(request):
        written = _written_request(request)
        again = read_request(SCHEMAS, written)
        assert again.failure is None
        assert _written_request(again) == written


def a_cut_request(data: bytes) -> None:
    """Check the promises of a request frame without its tail."""
    _is_sound(read_request(SCHEMAS, data, cut=True), data)


def a_response(data: bytes) -> None:
    """Check the promises of a response frame, which its request's API precedes."""
    if len(data) < ASKED.size:
        return
    (key, version), frame = ASKED.unpack_from(data), data[ASKED.size :]
    _is_sound(read_response(SCHEMAS, frame, key, version, cut=True), frame)
    response = read_response(SCHEMAS, frame, key, version)
    _is_sound(response, frame)
    if response.body is not None and not response.remarks:
        written = _written_response(response)
        again = read_response(SCHEMAS, written, key, version)
        assert again.failure is None
        assert _written_response(again) == written


def a_packet(data: bytes) -> None:
    """Check the promises of the packet layers; a byte for the link type precedes the packet."""
    link_type = _LINK_TYPES[data[0] % len(_LINK_TYPES)] if data else LinkType.ETHERNET
    content = data[1:]
    segment = read_segment(Packet(0, link_type, content, len(content)))
    assert isinstance(segment, Segment | Skipped)
    assert not isinstance(segment, Segment) or len(segment.payload) <= len(content)


def a_tls_stream(data: bytes) -> None:
    """Check the promises of a TLS stream, behind the hello of a client; a byte for its side precedes it."""
    if not data:
        return
    (_, hello), _, *_ = WRITER.handshake()
    side, content, key_log = Side(data[0] % len(Side)), data[1:], KeyLog()
    key_log.add(WRITER.key_log)
    readers, session = {each: RecordReader() for each in Side}, Session(key_log)
    with suppress(BrokenRecordError, UnreadableError):
        for sender, piece in ((Side.CLIENT, hello), (side, content)):
            reader = readers[sender]
            reader.push(piece)
            while (record := reader.next()) is not None:
                assert not session.awaits_key(sender, record)
                reader.accept(record)
                assert len(session.read(sender, record).data) <= len(content)
    for read in (read_client_hello, read_server_hello):
        with suppress(HandshakeError):
            assert len(read(content).random) == RANDOM_SIZE
    with suppress(HandshakeError):
        assert len(read_new_session_ticket(content)) <= len(content)


KINDS: Final[tuple[Kind, ...]] = (a_request, a_cut_request, a_response, a_packet, a_tls_stream)


def examine(data: bytes) -> None:
    """Check the promises of an input, whose kind is its first byte."""
    if data:
        KINDS[data[0] % len(KINDS)](data[1:])


def _is_sound(one: Request | Response, frame: bytes) -> None:
    assert one.failure is None or isinstance(one.failure, DecodeFailure)
    assert one.failure is None or (one.known and one.body is None)
    assert all(isinstance(remark, Remark) for remark in one.remarks)
    places = [remark.offset for remark in one.remarks] + ([one.failure.offset] if one.failure else [])
    assert all(0 <= place <= len(frame) for place in places)


def _is_of_overlay(request: Request) -> bool:
    # Written without foreign tags of its header, such a frame may no longer prove what it is.
    return request.api is not None and request.api.is_overlay(request.api_version)


def _written_request(request: Request) -> bytes:
    assert request.correlation_id is not None
    assert request.body is not None
    return write_request(
        SCHEMAS,
        request.api_key,
        request.api_version,
        request.correlation_id,
        request.client_id,
        request.body,
    )


def _written_response(response: Response) -> bytes:
    assert response.correlation_id is not None
    assert response.body_version is not None
    assert response.body is not None
    return write_response(
        SCHEMAS, response.api_key, response.body_version, response.correlation_id, response.body
    )
