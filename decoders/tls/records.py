"""The record layer: a stream of bytes cut into TLS records, and records found again after lost bytes.

Format: RFC 8446 section 5.1 and RFC 5246 section 6.2. A record is a header of five bytes (content type,
version, length) and a fragment, which is encrypted once the handshake has agreed on keys.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Container
from typing import Final, NamedTuple

HEADER_SIZE: Final = 5
MAX_FRAGMENT: Final = (1 << 14) + 2048
"""Bytes of the longest encrypted fragment (RFC 5246 section 6.2.3)."""
_VERSIONS = frozenset({b"\x03\x01", b"\x03\x02", b"\x03\x03"})
"""TLS 1.0 is the version of a first ClientHello, TLS 1.2 that of all other records, even with TLS 1.3."""


class ContentType(enum.IntEnum):
    """The kind of content of a record."""

    CHANGE_CIPHER_SPEC = 20
    ALERT = 21
    HANDSHAKE = 22
    APPLICATION_DATA = 23


_CONTENT_TYPES = frozenset(ContentType)
_WITH_HEARTBEAT = frozenset({*ContentType, 24})
"""Heartbeats (RFC 6520) are records, too, but no session reads them."""
_BEGINNING = re.compile(rb"[\x14-\x17]\x03[\x01-\x03]")
"""The first bytes of a header. A regular expression searches any bytes that a peer sends in C."""


class BrokenRecordError(Exception):
    """Bytes that begin no record where a record must begin."""


class TlsRecord(NamedTuple):
    """One record: the offset in the stream at which its header begins, the header, and the fragment."""

    offset: int
    header: bytes
    fragment: bytes

    @property
    def content_type(self) -> int:
        """The content type in the header: APPLICATION_DATA for all encrypted records of TLS 1.3."""
        return self.header[0]

    @property
    def end(self) -> int:
        """The offset behind the record."""
        return self.offset + HEADER_SIZE + len(self.fragment)


class RecordReader:
    """Cuts one direction into records.

    After `lose` it is *seeking*: `next` returns candidates, bytes that look like a record. The caller
    decrypts a candidate and calls `accept` or `reject`. `dropped` counts pushed bytes that are in no record.
    """

    def __init__(self, offset: int = 0) -> None:
        """Begin at an offset of the stream, where a record begins."""
        self.is_seeking = False
        self.dropped = 0
        self.offset = offset
        """The offset of the first byte that is in no complete record."""
        self._buffer = bytearray()
        self._next_begin = 0
        """While seeking, no record begins before this offset."""

    @property
    def held(self) -> int:
        """Bytes of the incomplete record."""
        return len(self._buffer)

    def push(self, data: bytes) -> None:
        """Add the next bytes of the stream."""
        self._buffer += data
        if self.is_seeking:
            self._drop(min(max(0, self._next_begin - self.offset), len(self._buffer)))

    def next(self) -> TlsRecord | None:
        """Return the next record or candidate, None if it is not complete. Raises BrokenRecordError.

        It is returned again until it is accepted or rejected.
        """
        if self.is_seeking:
            self._drop(self._passed_over())
        if len(self._buffer) < HEADER_SIZE or self.offset < self._next_begin:
            return None
        if not _is_header(self._buffer, 0):
            raise BrokenRecordError
        return self._record()

    def lose(self, size: int) -> None:
        """Process bytes that were not captured: the next record begins after them, at an unknown offset.

        If the header of the record that they are in was captured, no record begins before its end.
        """
        behind = self.offset + len(self._buffer) + size
        begins = self._next_begin
        if len(self._buffer) >= HEADER_SIZE and not self.is_seeking and _is_header(self._buffer, 0):
            begins = self.offset + HEADER_SIZE + _length(self._buffer, 0)
        self.dropped += len(self._buffer)
        self._buffer.clear()
        self.offset = behind
        self._next_begin = max(begins, behind)
        self.is_seeking = True

    def accept(self, record: TlsRecord) -> None:
        """Go on behind a record that `next` has returned."""
        self._remove(record.end - record.offset)
        self.is_seeking = False

    def reject(self) -> None:
        """Look for another candidate behind the first byte of the one that `next` has returned."""
        self._drop(1)

    def _passed_over(self) -> int:
        """Return how many bytes precede the next possible header."""
        end = max(0, len(self._buffer) - HEADER_SIZE + 1)
        for found in _BEGINNING.finditer(self._buffer):
            if found.start() >= end or _is_header(self._buffer, found.start()):
                return min(found.start(), end)
        return end

    def _record(self) -> TlsRecord | None:
        """Return the record that the buffer begins with, if it is complete."""
        end = HEADER_SIZE + _length(self._buffer, 0)
        if len(self._buffer) < end:
            return None
        header, fragment = bytes(self._buffer[:HEADER_SIZE]), bytes(self._buffer[HEADER_SIZE:end])
        return TlsRecord(self.offset, header, fragment)

    def _drop(self, size: int) -> None:
        self.dropped += size
        self._remove(size)

    def _remove(self, size: int) -> None:
        del self._buffer[:size]
        self.offset += size


def begins_with_client_hello(data: bytes | bytearray) -> bool | None:
    """Return whether a stream begins with the record of a ClientHello. None if more bytes are needed.

    No Kafka request begins so: its length would be 352 MiB.
    """
    known = data[: len(_CLIENT_HELLO)]
    matches = all(want is None or want == have for have, want in zip(known, _CLIENT_HELLO, strict=False))
    if not matches:
        return False
    return True if len(known) == len(_CLIENT_HELLO) else None


_CLIENT_HELLO = (ContentType.HANDSHAKE, 3, None, None, None, 1)
"""Content type, major version, then minor version and length, which may be any, and the message's type."""


def begins_with_record(data: bytes | bytearray) -> bool | None:
    """Return whether bytes begin with a record that ends where they end, or where another record begins.

    None if more bytes are needed. No Kafka frame begins like a TLS record: its size would be too large.
    """
    if len(data) < HEADER_SIZE:
        return None
    if not _is_header(data, 0, _WITH_HEARTBEAT):
        return False
    end = HEADER_SIZE + _length(data, 0)
    next_header = data[end : end + HEADER_SIZE]
    if len(data) < end or 0 < len(next_header) < HEADER_SIZE:
        return None
    return not next_header or _is_header(next_header, 0, _WITH_HEARTBEAT)


def _is_header(data: bytes | bytearray, at: int, types: Container[int] = _CONTENT_TYPES) -> bool:
    return (
        data[at] in types
        and bytes(data[at + 1 : at + 3]) in _VERSIONS
        and 0 < _length(data, at) <= MAX_FRAGMENT
    )


def _length(data: bytes | bytearray, at: int) -> int:
    return int.from_bytes(data[at + 3 : at + HEADER_SIZE])
