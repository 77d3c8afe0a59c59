"""Tells what bytes are: Kafka frames, found by decoding them, or the beginning of another protocol.

After a gap, framing resumes only at bytes that begin with a complete frame, which decodes to its last byte
and is followed by nothing or by the beginning of another frame. It resumes at an incomplete frame, too, if
the captured bytes decode and the rest of the frame is as long as the gap. In the direction of the client the
frame must also be the response to a request in flight.

Where a connection's first bytes are no Kafka request, four of them name the protocol. No more are kept,
because the bytes of other protocols may be secrets.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable
from typing import Protocol

from decoders.codec.request import expects_response, read_request
from decoders.codec.response import read_response
from decoders.protocol import API_VERSIONS, PRODUCE, REQUEST_LEAD, RESPONSE_LEAD
from decoders.schema.registry import Schemas
from decoders.wire.framing import MAX_FRAME, OPENING_SIZE, PREFIX, SHORTEST_FRAME
from decoders.wire.pairing import RequestInFlight
from decoders.wire.principal import PrincipalReader

MAX_RESUMED_FRAME = 1024 * 1024
"""Bytes. Framing does not resume at longer frames, because their bytes would have to be buffered."""
LONGEST_API_VERSIONS = 8 * 1024
"""Bytes. Longer frames are no ApiVersions responses: those list some hundred APIs of seven bytes each."""
_API_KEY = struct.Struct(">h")
_HEADER = struct.Struct(">hhi")
_LENGTH = struct.Struct(">h")
_SIZE = struct.Struct(">i")

ExcludesClient = Callable[[str], bool]
"""Returns whether the connections of a client ID are not watched."""
FindRequest = Callable[[int], RequestInFlight | None]
"""Returns the request in flight with a correlation ID."""


class FrameDetector:
    """Answers what framing and pairing ask of the codec. No frame is longer than `max_frame` bytes."""

    def __init__(
        self,
        schemas: Schemas,
        max_frame: int = MAX_FRAME,
        excludes_client: ExcludesClient | None = None,
        *,
        keeps_principals: bool = False,
    ) -> None:
        """The names under which clients log in are read only if `keeps_principals`."""
        self.max_frame = max_frame
        self.keeps_principals = keeps_principals
        self._schemas = schemas
        self._excludes_client = excludes_client

    def opens(self, data: bytes | bytearray) -> bool | None:
        """Return whether a connection's first bytes may be a request. None if more bytes are needed."""
        if len(data) < PREFIX:
            return None
        (size,) = _SIZE.unpack_from(data)
        if not REQUEST_LEAD <= size <= self.max_frame:
            return False
        if len(data) < OPENING_SIZE:
            return None
        (api_key,) = _API_KEY.unpack_from(data, PREFIX)
        return self._schemas.api(api_key) is not None

    def is_request(self, frame: bytes, *, cut: bool = False) -> bool:
        """Return whether a frame decodes as a request; one that is `cut` must decode up to its end.

        A complete Produce request without topics does not count: API key 0 and zeros are also how a response
        with a small correlation ID begins.
        """
        request = read_request(self._schemas, frame, cut=cut)
        if not request.known or request.failure is not None:
            return False
        return cut or request.api_key != PRODUCE or bool(request.body and request.body["topicData"])

    def resumes_requests(self, data: bytes | bytearray, missing: int = 0) -> bool | None:
        """Return whether requests resume at these bytes, before `missing` bytes. None if more are needed."""
        begins = self._begins_request(data)
        return begins and _resumes(data, missing, self.is_request, self._begins_request)

    def resumes_responses(
        self, data: bytes | bytearray, missing: int, find_request: FindRequest
    ) -> bool | None:
        """Return whether responses resume at these bytes, before `missing` bytes. None if more are needed."""

        def begins(rest: bytes | bytearray) -> bool | None:
            return _begins_response(rest, find_request)

        def is_response(frame: bytes, *, cut: bool) -> bool:
            request = find_request(_correlation_id(frame))
            return request is not None and self._is_response_to(request, frame, cut)

        return begins(data) and _resumes(data, missing, is_response, begins)

    def is_api_versions(self, frame: bytes, true_length: int) -> bool:
        """Return whether a frame, whole or cut, decodes as the response to ApiVersions of any version."""
        api, cut = self._schemas.api(API_VERSIONS), len(frame) < true_length
        if api is None or true_length > LONGEST_API_VERSIONS:
            return False
        versions = range(api.versions.lowest, api.versions.highest + 1)
        responses = (
            read_response(self._schemas, frame, API_VERSIONS, version, cut=cut) for version in versions
        )
        return any(
            response.known and response.failure is None and not response.remarks for response in responses
        )

    def expects_response(self, frame: bytes) -> bool | None:
        """Return whether a request expects a response, None if its bytes do not show it."""
        return expects_response(self._schemas, frame)

    def principal_reader(self) -> PrincipalReader | None:
        """Return what reads the name of one connection's client, None if names are not kept."""
        return PrincipalReader(self._schemas) if self.keeps_principals else None

    @property
    def excludes_clients(self) -> bool:
        """Whether any client ID is excluded."""
        return self._excludes_client is not None

    def is_excluded(self, frame: bytes) -> bool | None:
        """Return whether a request has a client ID that is excluded, None if its ID was not captured."""
        client_id = _client_id(frame)
        if client_id is None or self._excludes_client is None:
            return None
        return self._excludes_client(client_id)

    def _begins_request(self, data: bytes | bytearray) -> bool | None:
        if len(data) < PREFIX + REQUEST_LEAD:
            return None
        (size,) = _SIZE.unpack_from(data)
        api_key, api_version, _ = _HEADER.unpack_from(data, PREFIX)
        api = self._schemas.api(api_key)
        is_known = api is not None and api_version in api.versions
        return REQUEST_LEAD <= size <= MAX_RESUMED_FRAME and is_known

    def _is_response_to(self, request: RequestInFlight, frame: bytes, cut: bool) -> bool:
        response = read_response(self._schemas, frame, request.api_key, request.api_version, cut=cut)
        return response.known and response.failure is None


class _Decodes(Protocol):
    def __call__(self, frame: bytes, *, cut: bool) -> bool: ...


def _resumes(
    data: bytes | bytearray,
    missing: int,
    decodes: _Decodes,
    begins: Callable[[bytes | bytearray], bool | None],
) -> bool | None:
    end = PREFIX + _SIZE.unpack_from(data)[0]
    if missing:
        return end == len(data) + missing and decodes(bytes(data[PREFIX:]), cut=True)
    if len(data) < end:
        return None
    if not decodes(bytes(data[PREFIX:end]), cut=False):
        return False
    return len(data) == end or begins(data[end:])


def _client_id(frame: bytes) -> str | None:
    """Return the client ID of a request, "" for null: it is at one place in all headers from version 1 on."""
    if len(frame) < REQUEST_LEAD + _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack_from(frame, REQUEST_LEAD)
    begin = REQUEST_LEAD + _LENGTH.size
    if length > len(frame) - begin:
        return None
    return frame[begin : begin + max(0, length)].decode(errors="replace")


def _correlation_id(frame: bytes | bytearray) -> int:
    return int(_SIZE.unpack_from(frame)[0])


def _begins_response(data: bytes | bytearray, find_request: FindRequest) -> bool | None:
    if len(data) < PREFIX + RESPONSE_LEAD:
        return None
    (size,) = _SIZE.unpack_from(data)
    is_plausible = RESPONSE_LEAD <= size <= MAX_RESUMED_FRAME
    return is_plausible and find_request(_correlation_id(data[PREFIX:])) is not None


class OtherProtocol(enum.StrEnum):
    """The protocol that first bytes belong to. The values are part of findings."""

    HTTP = "HTTP"
    TLS = "TLS"
    PROXY = "a PROXY protocol header"
    SSH = "SSH"
    NOISE = "noise"
    """Nothing of the above."""


_HTTP_METHODS = frozenset(
    {b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"CONN", b"PATC", b"TRAC", b"PRI "}
)
"""The beginnings of the methods of RFC 9110 section 9 and RFC 5789, and of HTTP/2 (RFC 9113 section 3.4)."""
_PROXY_HEADERS = frozenset({b"PROX", b"\r\n\r\n"})
"""The beginnings of both versions of the PROXY protocol, sections 2.1 and 2.2."""
_TLS_HANDSHAKES = frozenset({b"\x16\x03\x00", b"\x16\x03\x01", b"\x16\x03\x02", b"\x16\x03\x03"})
"""A handshake record and its version (RFC 8446 section 5.1), before its length."""
_TLS_ALERTS = frozenset({0x15030000, 0x15030100, 0x15030200, 0x15030300})
"""An alert record, its version, and the first byte of its length, which is 2 (RFC 8446 section 6)."""
_OUTERMOST = frozenset({-1, -(1 << 31), (1 << 31) - 1})
"""A missing or overflown length: -1 and 2 GiB."""
_GSSAPI_TAG = b"\x60"
"""The first byte of a GSSAPI token (RFC 2743 section 3.1)."""
_TOKEN_SIZES = range(8, 1 << 24)


def protocol_of(beginning: bytes) -> OtherProtocol:
    """Name the protocol that begins with these four bytes."""
    if beginning in _HTTP_METHODS:
        return OtherProtocol.HTTP
    if beginning[:3] in _TLS_HANDSHAKES:
        return OtherProtocol.TLS
    if beginning in _PROXY_HEADERS:
        return OtherProtocol.PROXY
    return OtherProtocol.SSH if beginning == b"SSH-" else OtherProtocol.NOISE


def protocol_of_server(beginning: bytes) -> OtherProtocol:
    """Name the protocol whose server's first four bytes these are."""
    if is_tls_alert(int.from_bytes(beginning)):
        return OtherProtocol.TLS
    if beginning == b"HTTP":
        return OtherProtocol.HTTP
    return OtherProtocol.SSH if beginning == b"SSH-" else OtherProtocol.NOISE


def is_tls_alert(size: int) -> bool:
    """Whether a frame's length, as an unsigned number, is really the beginning of a TLS alert.

    Blocks may hold numbers above 32 bits.
    """
    return size in _TLS_ALERTS


def is_broken_length(size: int) -> bool:
    """Whether a signed number is the impossible length that a broken encoder of frames writes.

    That is a length shorter than a correlation ID, -1 or 2 GiB. Any other impossible length is more likely to
    be the bytes of something else.
    """
    return 0 <= size < SHORTEST_FRAME or size in _OUTERMOST


def is_gssapi_token(data: bytes) -> bool:
    """Whether a frame, length included, is a raw GSSAPI token, as Kafka 0.9 clients sent it first."""
    return int.from_bytes(data[:PREFIX]) in _TOKEN_SIZES and data[PREFIX : PREFIX + 1] == _GSSAPI_TAG
