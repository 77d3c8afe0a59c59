"""Names the protocol that a connection's first bytes belong to, where they are no Kafka request.

The first four bytes are enough. No more are kept, because the bytes of other protocols may be secrets.
"""

from __future__ import annotations

import enum

from decoders.wire.framing import PREFIX, SHORTEST_FRAME


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
    """Whether an unsigned number that was read as the length of a frame is how a TLS alert begins.

    A block may claim more than 32 bits.
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
