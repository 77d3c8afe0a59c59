"""Record protection: cipher suites, the keys of each direction, and records opened with them.

Only authenticated encryption (AEAD) of TLS 1.2 and 1.3 is supported. A record opens if its number, its header
and all its bytes are those that the sender has protected, and with no other number. Suites with CBC and TLS
1.0 and 1.1 do not bind a record to its place in the stream in this way, so they are not read.

Suites are numbered by https://www.iana.org/assignments/tls-parameters. Key schedules: RFC 8446 section 7 (TLS
1.3), RFC 5246 sections 5 and 6.3 (TLS 1.2). Records: RFC 8446 section 5.2, RFC 5288 (GCM in TLS 1.2) and RFC
7905 (ChaCha20-Poly1305 in TLS 1.2).
"""

from __future__ import annotations

import enum
import hmac
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from decoders.tls.handshake import TLS_1_2, TLS_1_3
from decoders.tls.records import TlsRecord


class Aead(enum.Enum):
    """A cipher: its name, and the size of its key in bytes."""

    AES_128_GCM = ("AES-128-GCM", 16)
    AES_256_GCM = ("AES-256-GCM", 32)
    CHACHA20_POLY1305 = ("ChaCha20-Poly1305", 32)

    @property
    def key_size(self) -> int:
        """Bytes of a key."""
        return self.value[1]


class CipherSuite(NamedTuple):
    """A supported suite. `hash` is the name of the hash function of its key schedule."""

    version: int
    aead: Aead
    hash: str

    @property
    def is_tls_1_3(self) -> bool:
        """Whether the key schedule and the records are those of TLS 1.3."""
        return self.version == TLS_1_3


_TLS_1_3_SUITES: Final = {
    0x1301: (Aead.AES_128_GCM, "sha256"),
    0x1302: (Aead.AES_256_GCM, "sha384"),
    0x1303: (Aead.CHACHA20_POLY1305, "sha256"),
}
# By key exchange: RSA, DHE-RSA, DHE-DSS, ECDHE-ECDSA, ECDH-ECDSA, ECDHE-RSA, ECDH-RSA.
_AES_128_GCM = (0x009C, 0x009E, 0x00A2, 0xC02B, 0xC02D, 0xC02F, 0xC031)
_AES_256_GCM = (0x009D, 0x009F, 0x00A3, 0xC02C, 0xC02E, 0xC030, 0xC032)
# ECDHE-RSA, ECDHE-ECDSA, DHE-RSA.
_CHACHA20 = (0xCCA8, 0xCCA9, 0xCCAA)
_TLS_1_2_SUITES: Final = {
    **dict.fromkeys(_AES_128_GCM, (Aead.AES_128_GCM, "sha256")),
    **dict.fromkeys(_AES_256_GCM, (Aead.AES_256_GCM, "sha384")),
    **dict.fromkeys(_CHACHA20, (Aead.CHACHA20_POLY1305, "sha256")),
}
_SUITES: Final = {TLS_1_2: _TLS_1_2_SUITES, TLS_1_3: _TLS_1_3_SUITES}


def cipher_suite(version: int, number: int) -> CipherSuite | None:
    """Return a suite by protocol version and IANA number, None if it is not supported."""
    found = _SUITES.get(version, {}).get(number)
    return CipherSuite(version, *found) if found else None


IV_SIZE: Final = 12
"""Bytes of an initialization vector, and of each nonce of an AEAD."""
GCM_SALT_SIZE: Final = 4
"""Bytes of the part of TLS 1.2's GCM nonces that is not sent."""
_HASHES: Final = {"sha256": hashes.SHA256(), "sha384": hashes.SHA384()}


@dataclass(frozen=True, slots=True)
class TrafficKeys:
    """The key of one direction, and its initialization vector, which records combine with their number."""

    key: bytes = field(repr=False)
    iv: bytes = field(repr=False)


def traffic_keys(suite: CipherSuite, secret: bytes) -> TrafficKeys:
    """Return the keys of a TLS 1.3 traffic secret (RFC 8446 section 7.3)."""
    return TrafficKeys(
        expand_label(suite.hash, secret, b"key", suite.aead.key_size),
        expand_label(suite.hash, secret, b"iv", IV_SIZE),
    )


def next_secret(suite: CipherSuite, secret: bytes) -> bytes:
    """Return the traffic secret that follows after a KeyUpdate (RFC 8446 section 7.2)."""
    return expand_label(suite.hash, secret, b"traffic upd", _HASHES[suite.hash].digest_size)


def expand_label(hash_name: str, secret: bytes, label: bytes, length: int) -> bytes:
    """Return HKDF-Expand-Label with an empty context (RFC 8446 section 7.1)."""
    full_label = b"tls13 " + label
    info = length.to_bytes(2) + bytes([len(full_label)]) + full_label + b"\0"
    return HKDFExpand(_HASHES[hash_name], length, info).derive(secret)


def session_keys(
    suite: CipherSuite, master_secret: bytes, client_random: bytes, server_random: bytes
) -> tuple[TrafficKeys, TrafficKeys]:
    """Return the keys of client and server of TLS 1.2."""
    key, iv = suite.aead.key_size, IV_SIZE if suite.aead is Aead.CHACHA20_POLY1305 else GCM_SALT_SIZE
    seed = b"key expansion" + server_random + client_random
    block = pseudorandom(suite.hash, master_secret, seed, 2 * (key + iv))
    ivs = block[2 * key :]
    return TrafficKeys(block[:key], ivs[:iv]), TrafficKeys(block[key : 2 * key], ivs[iv:])


def pseudorandom(hash_name: str, secret: bytes, seed: bytes, length: int) -> bytes:
    """Return TLS 1.2's PRF of a seed that begins with its label (RFC 5246 section 5)."""
    output, link = b"", seed
    while len(output) < length:
        link = hmac.digest(secret, link, hash_name)
        output += hmac.digest(secret, link + seed, hash_name)
    return output[:length]


TAG_SIZE: Final = 16
_EXPLICIT_NONCE: Final = 8
"""Bytes of a GCM nonce that TLS 1.2 sends in front of the ciphertext."""

SealedRecord = tuple[Callable[[bytes, memoryview, bytes, memoryview], int], bytes, int, int, int, int, bytes]
"""A record to open: `Protection.decrypt_into`, the nonce, begin and end of its ciphertext, begin and end of
the place for its plaintext, and the associated data."""


class Plaintext(NamedTuple):
    """The content of a record. In the fragment it begins at `begin`."""

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
        """Combined with a record's explicit nonce, or else its number, it is the record's nonce."""

    @property
    def explicit_nonce(self) -> int:
        """Bytes of a record's fragment in front of its ciphertext."""
        return _EXPLICIT_NONCE if self._has_explicit_nonce else 0

    @property
    def hides_type(self) -> bool:
        """Whether the type of a record is encrypted, and padding with it, as in TLS 1.3."""
        return self._is_tls_1_3

    def open(self, record: TlsRecord, number: int) -> Plaintext | None:
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
            return Plaintext(header[0], data, begin)
        return _without_padding(data)

    def _nonce(self, number: int, explicit: bytes) -> bytes:
        """XOR the end of the vector, which is 0 behind a salt, with the explicit nonce or the number."""
        varying = int.from_bytes(explicit) if self._has_explicit_nonce else number
        return (int.from_bytes(self.vector) ^ varying).to_bytes(IV_SIZE)


def open_next(sealed: Iterable[SealedRecord], data: memoryview, target: memoryview) -> int:
    """Open records up to the first that does not open, and return how many did.

    Places are offsets in `data` and `target`. A hidden type is the byte behind the content. The place of a
    record that does not open has undefined content.
    """
    opened = 0
    try:
        for decrypt, nonce, begin, end, plain_begin, plain_end, associated in sealed:
            decrypt(nonce, data[begin:end], associated, target[plain_begin:plain_end])
            opened += 1
    except InvalidTag:
        pass
    return opened


def _without_padding(data: bytes) -> Plaintext | None:
    """Split what TLS 1.3 encrypts: the content, its type, and zeros (RFC 8446 section 5.4)."""
    content = data.rstrip(b"\0")
    if not content:
        return None
    return Plaintext(content[-1], content[:-1], 0)
