"""Writes TLS connections with known secrets: the hellos, then records of any size, as the peers of one do."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from decoders.tls.handshake import TLS_1_2, TLS_1_3
from decoders.tls.protection import (
    Aead,
    CipherSuite,
    TrafficKeys,
    cipher_suite,
    next_secret,
    session_keys,
    traffic_keys,
)
from decoders.tls.records import ContentType
from decoders.tls.session import Side

SUITES: Final = (
    (TLS_1_2, 0xC02F),
    (TLS_1_2, 0xC030),
    (TLS_1_2, 0xCCA8),
    (TLS_1_3, 0x1301),
    (TLS_1_3, 0x1302),
    (TLS_1_3, 0x1303),
)
KEY_UPDATE: Final = bytes.fromhex("1800000100")
FINISHED: Final = b"\x14\0\0\x0c" + bytes(12)


class TlsWriter:
    """Both sides of one connection. The seed chooses its randoms and secrets.

    With TLS 1.2 the session may have an ID, and the server may issue a ticket for it.
    """

    def __init__(
        self, version: int, suite: int, seed: int = 0, *, session_id: bytes = b"", issues: bytes = b""
    ) -> None:
        found = cipher_suite(version, suite)
        assert found is not None
        self.suite: CipherSuite = found
        self._code = suite
        self.client_random, self._server_random = self._secret(seed, 0)[:32], self._secret(seed, 1)[:32]
        size = 48 if not found.is_tls_1_3 or found.hash == "sha384" else 32
        self._secrets = {side: self._secret(seed, 2)[:size] for side in Side}
        if found.is_tls_1_3:
            self._secrets[Side.SERVER] = self._secret(seed, 3)[:size]
            keys = [traffic_keys(found, secret) for secret in self._secrets.values()]
        else:
            keys = list(
                session_keys(found, self._secrets[Side.CLIENT], self.client_random, self._server_random)
            )
        self._session_ids = {Side.CLIENT: b"", Side.SERVER: session_id}
        self._issued, self._shown = issues, b""
        self._first_secrets = dict(self._secrets)
        self._keys = dict(zip(Side, keys, strict=True))
        self._numbers = dict.fromkeys(Side, 0)

    @property
    def key_log(self) -> str:
        """The lines that both sides write to a key log."""
        random = self.client_random.hex()
        if not self.suite.is_tls_1_3:
            return f"CLIENT_RANDOM {random} {self._first_secrets[Side.CLIENT].hex()}\n"
        return "".join(
            f"{side.name}_TRAFFIC_SECRET_0 {random} {secret.hex()}\n"
            for side, secret in self._first_secrets.items()
        )

    @property
    def session_log(self) -> str:
        """The line that a JVM agent writes of a session of TLS 1.2."""
        secret = self._first_secrets[Side.CLIENT].hex()
        return f"RSA Session-ID:{self._session_ids[Side.SERVER].hex()} Master-Key:{secret}\n"

    def show(self, ticket: bytes, session_id: bytes, resumed: TlsWriter | None = None) -> None:
        """Let the client show a ticket, with an ID of its choice, and maybe the server resume by it."""
        self._shown, self._session_ids[Side.CLIENT] = ticket, session_id
        if resumed is not None:
            self._session_ids[Side.SERVER] = session_id
            secret = resumed._first_secrets[Side.CLIENT]
            keys = session_keys(self.suite, secret, self.client_random, self._server_random)
            self._keys = dict(zip(Side, keys, strict=True))

    def handshake(self) -> list[tuple[Side, bytes]]:
        """Return the flights of the handshake."""
        return list(self._handshake())

    def data(self, side: Side, data: bytes, size: int = 1 << 14, padding: int = 0) -> bytes:
        """Return records with application data, each with at most `size` bytes of it."""
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        return b"".join(self.record(side, ContentType.APPLICATION_DATA, piece, padding) for piece in pieces)

    def key_update(self, side: Side) -> bytes:
        """Return the record of a KeyUpdate, and go on with the next keys."""
        record = self.record(side, ContentType.HANDSHAKE, KEY_UPDATE)
        self._secrets[side] = next_secret(self.suite, self._secrets[side])
        self._keys[side], self._numbers[side] = traffic_keys(self.suite, self._secrets[side]), 0
        return record

    def record(self, side: Side, kind: int, content: bytes, padding: int = 0) -> bytes:
        """Return one protected record."""
        number, self._numbers[side] = self._numbers[side], self._numbers[side] + 1
        return _protected(self.suite, self._keys[side], number, kind, content, padding=padding)

    def _handshake(self) -> Iterator[tuple[Side, bytes]]:
        is_tls_1_3 = self.suite.is_tls_1_3
        offered = b"\0\x02" + self._code.to_bytes(2) + b"\x01\0"
        if self._shown:
            extension = b"\0\x23" + len(self._shown).to_bytes(2) + self._shown
            offered += len(extension).to_bytes(2) + extension
        yield Side.CLIENT, _hello(1, self.client_random, offered, self._session_ids[Side.CLIENT])
        chosen = bytes.fromhex("0006002b00020304") if is_tls_1_3 else b""
        session_id = self._session_ids[Side.SERVER]
        hello = _hello(2, self._server_random, self._code.to_bytes(2) + b"\0" + chosen, session_id)
        ccs = bytes.fromhex("140303000101")
        if is_tls_1_3:
            # With the keys of the handshake, which nobody has.
            secret = TrafficKeys(bytes(self.suite.aead.key_size), bytes(12))
            hidden = [_protected(self.suite, secret, number, 22, FINISHED) for number in range(3)]
            yield Side.SERVER, hello + ccs + hidden[0] + hidden[1]
            yield Side.CLIENT, ccs + hidden[2]
            yield Side.SERVER, self.record(Side.SERVER, ContentType.HANDSHAKE, b"\x04\0\0\x03abc")
        else:
            yield Side.SERVER, hello + b"\x16\x03\x03\0\x04\x0e\0\0\0"
            yield Side.CLIENT, ccs + self.record(Side.CLIENT, ContentType.HANDSHAKE, FINISHED)
            issued = _new_session_ticket(self._issued) if self._issued else b""
            yield Side.SERVER, issued + ccs + self.record(Side.SERVER, ContentType.HANDSHAKE, FINISHED)

    @staticmethod
    def _secret(seed: int, number: int) -> bytes:
        return hashlib.sha512(f"{seed} {number}".encode()).digest()


def _hello(kind: int, random: bytes, rest: bytes, session_id: bytes) -> bytes:
    return _message(kind, b"\x03\x03" + random + bytes([len(session_id)]) + session_id + rest)


def _new_session_ticket(ticket: bytes) -> bytes:
    return _message(4, bytes(4) + len(ticket).to_bytes(2) + ticket)


def _message(kind: int, body: bytes) -> bytes:
    """Return the record of a handshake message that is not encrypted."""
    message = bytes([kind]) + len(body).to_bytes(3) + body
    return b"\x16\x03\x03" + len(message).to_bytes(2) + message


def _protected(
    suite: CipherSuite, keys: TrafficKeys, number: int, kind: int, content: bytes, *, padding: int = 0
) -> bytes:
    is_chacha = suite.aead is Aead.CHACHA20_POLY1305
    aead = ChaCha20Poly1305(keys.key) if is_chacha else AESGCM(keys.key)
    counted = (int.from_bytes(keys.iv) ^ number).to_bytes(12)
    if suite.is_tls_1_3:
        inner = content + bytes([kind]) + bytes(padding)
        header = b"\x17\x03\x03" + (len(inner) + 16).to_bytes(2)
        return header + aead.encrypt(counted, inner, header)
    associated = number.to_bytes(8) + bytes([kind]) + b"\x03\x03" + len(content).to_bytes(2)
    explicit = b"" if is_chacha else number.to_bytes(8)
    nonce = counted if is_chacha else keys.iv + explicit
    fragment = explicit + aead.encrypt(nonce, content, associated)
    return bytes([kind]) + b"\x03\x03" + len(fragment).to_bytes(2) + fragment
