"""Key schedules: the secrets of a key log → the keys that protect the records of each direction.

TLS 1.3: RFC 8446 section 7. TLS 1.2: RFC 5246 sections 5 and 6.3, with the key sizes of RFC 5288 and 7905.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from typing import Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from decoders.tls.cipher_suites import Aead, CipherSuite

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
    """Return HKDF-Expand-Label of an empty context (RFC 8446 section 7.1)."""
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
