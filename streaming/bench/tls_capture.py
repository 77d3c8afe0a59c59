"""The bench's synthetic capture over TLS 1.3: the same clients and the same frames, encrypted.

All clients have the same secrets, so that each exchange is encrypted once and copied for every client, as it
is in plaintext. Whoever reads the capture derives keys for each connection, and decrypts each of its records.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from decoders.frame.record import Direction
from decoders.tls.cipher_suites import Aead, CipherSuite
from decoders.tls.handshake import TLS_1_3
from decoders.tls.key_schedule import IV_SIZE, traffic_keys
from decoders.tls.protection import TAG_SIZE
from decoders.tls.records import ContentType
from streaming.bench.wire_capture import (
    Exchange,
    SyntheticCapture,
    carried,
    file_header,
    in_turn,
    negotiation,
)

_SUITE_NUMBER: Final = 0x1301
"""TLS_AES_128_GCM_SHA256."""
_SUITE: Final = CipherSuite(TLS_1_3, Aead.AES_128_GCM, "sha256")
_LARGEST_CONTENT: Final = 1 << 14
_CLIENT_RANDOM: Final = bytes(range(32))
_SECRETS: Final = {Direction.TO_BROKER: b"\1" * 32, Direction.TO_CLIENT: b"\2" * 32}
_LABELS: Final = {
    Direction.TO_BROKER: "CLIENT_TRAFFIC_SECRET_0",
    Direction.TO_CLIENT: "SERVER_TRAFFIC_SECRET_0",
}
_CERTIFICATES: Final = 2_500
"""Bytes of the broker's certificates and what else of the handshake is encrypted."""
_CHANGE_CIPHER_SPEC: Final = bytes.fromhex("140303000101")
_VERSION_1_3: Final = bytes.fromhex("0006002b00020304")
"""The extension of a ServerHello that says TLS 1.3."""


class _Sealer:
    """Encrypts what one side sends, in records of the largest size."""

    def __init__(self, secret: bytes) -> None:
        keys = traffic_keys(_SUITE, secret)
        self._aead, self._iv = AESGCM(keys.key), int.from_bytes(keys.iv)
        self._number = 0

    def records(self, data: bytes, kind: ContentType = ContentType.APPLICATION_DATA) -> bytes:
        """Return the records that carry some bytes."""
        pieces = (data[at : at + _LARGEST_CONTENT] for at in range(0, len(data), _LARGEST_CONTENT))
        return b"".join(self._record(piece + bytes([kind])) for piece in pieces)

    def _record(self, content: bytes) -> bytes:
        header = _header(ContentType.APPLICATION_DATA, len(content) + TAG_SIZE)
        nonce = (self._iv ^ self._number).to_bytes(IV_SIZE)
        self._number += 1
        return header + self._aead.encrypt(nonce, content, header)


class EncryptedCapture(SyntheticCapture):
    """`SyntheticCapture` over TLS. `key_log` has the secrets of all its connections."""

    key_log: Final = "".join(
        f"{_LABELS[direction]} {_CLIENT_RANDOM.hex()} {secret.hex()}\n"
        for direction, secret in _SECRETS.items()
    )

    def blocks(self) -> Iterator[bytes]:
        """Yield the file in pieces: its header, then complete records."""
        sealers = {direction: _Sealer(secret) for direction, secret in _SECRETS.items()}

        def sealed(frames: Exchange) -> list[tuple[Direction, bytes]]:
            return [(direction, sealers[direction].records(data)) for direction, data in in_turn(frames)]

        yield file_header()
        tickets = (
            Direction.TO_CLIENT,
            sealers[Direction.TO_CLIENT].records(b"\4\0\0\1t", ContentType.HANDSHAKE),
        )
        yield self._copied(carried([*_handshake(), tickets, *sealed(negotiation())], opens=True))
        while True:
            for exchange in self._exchanges:
                yield self._copied(carried(sealed(exchange)))


def _handshake() -> Iterator[tuple[Direction, bytes]]:
    """Yield the flights of a handshake: the hellos, and records with keys that no key log tells."""
    number = _SUITE_NUMBER.to_bytes(2)
    yield Direction.TO_BROKER, _hello(1, b"\0\2" + number + b"\1\0")
    hello = _hello(2, number + b"\0" + _VERSION_1_3)
    hidden = _Sealer(b"\3" * 32)
    encrypted = hidden.records(bytes(_CERTIFICATES), ContentType.HANDSHAKE)
    yield Direction.TO_CLIENT, hello + _CHANGE_CIPHER_SPEC + encrypted
    yield Direction.TO_BROKER, _CHANGE_CIPHER_SPEC + hidden.records(bytes(36), ContentType.HANDSHAKE)


def _hello(kind: int, rest: bytes) -> bytes:
    """Return the record of a ClientHello (1) or ServerHello (2)."""
    body = b"\3\3" + _CLIENT_RANDOM + b"\0" + rest
    message = bytes([kind]) + len(body).to_bytes(3) + body
    return _header(ContentType.HANDSHAKE, len(message)) + message


def _header(kind: ContentType, size: int) -> bytes:
    return bytes([kind]) + b"\3\3" + size.to_bytes(2)
