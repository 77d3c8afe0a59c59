"""Recognises TLS records (RFC 8446 section 5.1), which encrypted connections carry."""

from __future__ import annotations

_HEADER_SIZE = 5
_CONTENT_TYPES = range(20, 25)
"""Change cipher spec, alert, handshake, application data, heartbeat."""
_VERSIONS = frozenset({b"\x03\x01", b"\x03\x02", b"\x03\x03"})
_LONGEST = (1 << 14) + 2048
"""Bytes of the longest encrypted record (RFC 5246 section 6.2.3)."""


def begins_with_record(data: bytes | bytearray) -> bool | None:
    """Return whether bytes begin with a TLS record that ends where they end, or where another record begins.

    Returns None if more bytes are needed. No Kafka frame begins like a TLS record: its size would be too
    large.
    """
    if len(data) < _HEADER_SIZE:
        return None
    if not _is_header(data[:_HEADER_SIZE]):
        return False
    next_header = data[_HEADER_SIZE + _length(data) :][:_HEADER_SIZE]
    if len(data) < _HEADER_SIZE + _length(data) or 0 < len(next_header) < _HEADER_SIZE:
        return None
    return not next_header or _is_header(next_header)


def _is_header(data: bytes | bytearray) -> bool:
    return data[0] in _CONTENT_TYPES and bytes(data[1:3]) in _VERSIONS and 0 < _length(data) <= _LONGEST


def _length(data: bytes | bytearray) -> int:
    return int.from_bytes(data[3:_HEADER_SIZE])
