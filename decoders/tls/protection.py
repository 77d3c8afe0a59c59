"""Record protection: opens the records of one direction, each with its number.

TLS 1.3: RFC 8446 section 5.2. TLS 1.2: RFC 5288 (GCM) and RFC 7905 (ChaCha20-Poly1305). A record opens only
if its number, its header and all its bytes are those that the sender has protected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from decoders.tls.cipher_suites import Aead, CipherSuite
from decoders.tls.key_schedule import IV_SIZE, TrafficKeys
from decoders.tls.records import HEADER_SIZE, TlsRecord

TAG_SIZE: Final = 16
_EXPLICIT_NONCE: Final = 8
"""Bytes of a GCM nonce that TLS 1.2 sends in front of the ciphertext."""


RecordPlace = tuple[int, int, int, int]
"""Where a record begins and ends, and where what it has encrypted shall begin and end."""
OpenNext = Callable[[memoryview, Iterable[RecordPlace], int, memoryview], int]
"""The type of `Protection.open_next`."""


class Opened(NamedTuple):
    """The content of a record. It begins in the fragment at `begin`."""

    content_type: int
    data: bytes
    begin: int


class Protection:
    """The keys of one direction. Its repr shows nothing of them."""

    __slots__ = ("_aead", "_has_explicit_nonce", "_is_tls_1_3", "_iv", "_number_mask")

    def __init__(self, suite: CipherSuite, keys: TrafficKeys) -> None:
        is_chacha = suite.aead is Aead.CHACHA20_POLY1305
        self._aead = ChaCha20Poly1305(keys.key) if is_chacha else AESGCM(keys.key)
        self._is_tls_1_3 = suite.is_tls_1_3
        self._has_explicit_nonce = not is_chacha and not suite.is_tls_1_3
        self._iv = keys.iv
        self._number_mask = int.from_bytes(keys.iv)

    @property
    def explicit_nonce(self) -> int:
        """Bytes of a record's fragment in front of its ciphertext."""
        return _EXPLICIT_NONCE if self._has_explicit_nonce else 0

    @property
    def hides_type(self) -> bool:
        """Whether the type of a record is encrypted, and padding with it, as in TLS 1.3."""
        return self._is_tls_1_3

    def open_next(
        self, data: memoryview, places: Iterable[RecordPlace], number: int, target: memoryview
    ) -> int:
        """Open the records from a number on, up to the first that does not open; returns how many did.

        The fields of `places` are offsets in `data` and `target`. What a record has encrypted is written to
        its place; if it hides its type, that is behind the content. If it does not open, it may be anything.
        """
        decrypt, mask = self._aead.decrypt_into, self._number_mask
        first, is_tls_1_3 = number, self._is_tls_1_3
        associated: bytes | memoryview
        try:
            for begin, end, plain_begin, plain_end in places:
                if is_tls_1_3:
                    at = begin + HEADER_SIZE
                    nonce, associated = (mask ^ number).to_bytes(IV_SIZE), data[begin:at]
                else:
                    at = begin + HEADER_SIZE + self.explicit_nonce
                    nonce = self._nonce(number, data[begin + HEADER_SIZE : at])
                    size = plain_end - plain_begin
                    associated = number.to_bytes(8) + data[begin : begin + 3] + size.to_bytes(2)
                decrypt(nonce, data[at:end], associated, target[plain_begin:plain_end])
                number += 1
        except InvalidTag:
            pass
        return number - first

    def open(self, record: TlsRecord, number: int) -> Opened | None:
        """Return the content of a record if it is the one with this number, else None."""
        begin = self.explicit_nonce
        fragment = record.fragment
        size = len(fragment) - begin - TAG_SIZE
        if size < 0:
            return None
        nonce, fragment = self._nonce(number, fragment[:begin]), fragment[begin:]
        header = record.header
        associated = header if self._is_tls_1_3 else number.to_bytes(8) + header[:3] + size.to_bytes(2)
        try:
            data = self._aead.decrypt(nonce, fragment, associated)
        except InvalidTag:
            return None
        if not self._is_tls_1_3:
            return Opened(header[0], data, begin)
        return _without_padding(data)

    def _nonce(self, number: int, explicit: bytes | memoryview) -> bytes:
        if self._has_explicit_nonce:
            return self._iv + explicit
        return (self._number_mask ^ number).to_bytes(IV_SIZE)


def _without_padding(data: bytes) -> Opened | None:
    """Return what TLS 1.3 has encrypted: the content, its type, and zeros (RFC 8446 section 5.4)."""
    content = data.rstrip(b"\0")
    if not content:
        return None
    return Opened(content[-1], content[:-1], 0)
