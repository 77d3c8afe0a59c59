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
from decoders.tls.records import TlsRecord

TAG_SIZE: Final = 16
_EXPLICIT_NONCE: Final = 8
"""Bytes of a GCM nonce that TLS 1.2 sends in front of the ciphertext."""

SealedRecord = tuple[Callable[[bytes, memoryview, bytes, memoryview], int], bytes, int, int, int, int, bytes]
"""What decrypts it (`Protection.decrypt_into`), its nonce, where its ciphertext begins and ends, where its
plaintext shall begin and end, and what is authenticated beside the ciphertext."""


class Opened(NamedTuple):
    """The content of a record. It begins in the fragment at `begin`."""

    content_type: int
    data: bytes
    begin: int


class Protection:
    """The keys of one direction. Its repr shows nothing of them."""

    __slots__ = ("_aead", "_has_explicit_nonce", "_is_tls_1_3", "decrypt_into", "vector")

    def __init__(self, suite: CipherSuite, keys: TrafficKeys) -> None:
        is_chacha = suite.aead is Aead.CHACHA20_POLY1305
        self._aead = ChaCha20Poly1305(keys.key) if is_chacha else AESGCM(keys.key)
        self._is_tls_1_3 = suite.is_tls_1_3
        self._has_explicit_nonce = not is_chacha and not suite.is_tls_1_3
        self.decrypt_into = self._aead.decrypt_into
        self.vector = keys.iv.ljust(IV_SIZE, b"\0")
        """What the explicit nonce of a record, or else its number, is combined with to make its nonce."""

    @property
    def explicit_nonce(self) -> int:
        """Bytes of a record's fragment in front of its ciphertext."""
        return _EXPLICIT_NONCE if self._has_explicit_nonce else 0

    @property
    def hides_type(self) -> bool:
        """Whether the type of a record is encrypted, and padding with it, as in TLS 1.3."""
        return self._is_tls_1_3

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

    def _nonce(self, number: int, explicit: bytes) -> bytes:
        """Return the vector with its last bytes combined by XOR: those of a salt of four bytes are 0."""
        varying = int.from_bytes(explicit) if self._has_explicit_nonce else number
        return (int.from_bytes(self.vector) ^ varying).to_bytes(IV_SIZE)


def open_next(sealed: Iterable[SealedRecord], data: memoryview, target: memoryview) -> int:
    """Open records up to the first that does not open, and return how many did.

    Their places are offsets in `data` and `target`. If a record hides its type, that is behind the content.
    If it does not open, what is written to its place may be anything.
    """
    opened = 0
    try:
        for decrypt, nonce, begin, end, plain_begin, plain_end, associated in sealed:
            decrypt(nonce, data[begin:end], associated, target[plain_begin:plain_end])
            opened += 1
    except InvalidTag:
        pass
    return opened


def _without_padding(data: bytes) -> Opened | None:
    """Return what TLS 1.3 has encrypted: the content, its type, and zeros (RFC 8446 section 5.4)."""
    content = data.rstrip(b"\0")
    if not content:
        return None
    return Opened(content[-1], content[:-1], 0)
