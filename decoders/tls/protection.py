"""Record protection: opens the records of one direction, each with its number.

TLS 1.3: RFC 8446 section 5.2. TLS 1.2: RFC 5288 (GCM) and RFC 7905 (ChaCha20-Poly1305). A record opens only
if its number, its header and all its bytes are those that the sender has protected.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from decoders.tls.cipher_suites import Aead, CipherSuite
from decoders.tls.key_schedule import IV_SIZE, TrafficKeys
from decoders.tls.records import TlsRecord

TAG_SIZE: Final = 16
_EXPLICIT_NONCE: Final = 8
"""Bytes of a GCM nonce that TLS 1.2 sends in front of the ciphertext."""


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

    def open(self, record: TlsRecord, number: int) -> Opened | None:
        """Return the content of a record if it is the one with this number, else None."""
        begin = _EXPLICIT_NONCE if self._has_explicit_nonce else 0
        fragment = record.fragment
        size = len(fragment) - begin - TAG_SIZE
        if size < 0:
            return None
        if self._has_explicit_nonce:
            nonce, fragment = self._iv + fragment[:begin], fragment[begin:]
        else:
            nonce = (self._number_mask ^ number).to_bytes(IV_SIZE)
        header = record.header
        associated = header if self._is_tls_1_3 else number.to_bytes(8) + header[:3] + size.to_bytes(2)
        try:
            data = self._aead.decrypt(nonce, fragment, associated)
        except InvalidTag:
            return None
        if not self._is_tls_1_3:
            return Opened(header[0], data, begin)
        return _without_padding(data)


def _without_padding(data: bytes) -> Opened | None:
    """Return what TLS 1.3 has encrypted: the content, its type, and zeros (RFC 8446 section 5.4)."""
    content = data.rstrip(b"\0")
    if not content:
        return None
    return Opened(content[-1], content[:-1], 0)
