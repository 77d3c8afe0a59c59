"""The cipher suites that can be read: authenticated encryption (AEAD) of TLS 1.2 and 1.3.

Numbers: https://www.iana.org/assignments/tls-parameters. Suites with CBC cannot be read, nor can those of TLS
1.0 and 1.1: their records are not authenticated together with their place in the stream.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

from decoders.tls.handshake import TLS_1_2, TLS_1_3


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
    """What protects the records of a connection. `hash` is the name of the key schedule's hash function."""

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
    """Return a suite by protocol version and IANA number, None if it cannot be read."""
    found = _SUITES.get(version, {}).get(number)
    return CipherSuite(version, *found) if found else None
